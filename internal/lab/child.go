package lab

import "errors"

// Child is the entry of the lab's own processes: Config.Command must lead to a
// call of it with the arguments that follow, before the program does anything
// else. It returns when the process shall end, with an error if it broke.
func Child(args []string) error {
	if len(args) == 0 {
		return errors.New("lab process without a role: it is started by the lab, not by hand")
	}
	return child(args)
}
