package diagnose

// judged is how often the rules were right on planted limits, of cases of seeds below
// 1000: 200 to 243 as they were drawn, 400 to 515 as kinds one by one, and those of 0
// to 140 that were wrong once. What is printed by
//
//	make judge SEEDS=200-243 JUDGE=-quick
//	bin/judge-labs -count -seeds 200-243
//
// goes here, after each change of the rules that matters.
func judged() map[string]tally {
	return map[string]tally{
		"ceiling":     {50, 50},
		"B10 in part": {15, 16},
		"B14":         {16, 16},
		"B16":         {16, 16},
		"B07":         {13, 13},
		"B10":         {13, 13},
		"B06 in part": {11, 12},
		"B21":         {9, 9},
		"B09":         {8, 8},
		"B06":         {5, 5},
		"B08":         {5, 5},
		"B18":         {4, 4},
		"B29":         {4, 4},
		"B23":         {2, 3},
		"M2":          {3, 3},
		"B30":         {1, 1},
	}
}
