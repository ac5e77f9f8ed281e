package sandbox

func ownerOf(string) (User, bool) { return User{}, false }
