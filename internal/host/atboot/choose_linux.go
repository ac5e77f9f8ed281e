package atboot

// system is how this system is told what to run at its start.
func system(k Keeper) (job, error) { return linuxJob(k) }
