package opener

func opener(path string) []string { return []string{"open", path} }

func blind(func(string) string) string { return "" }
