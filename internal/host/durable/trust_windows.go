package durable

func private(string) error { return nil }
