package diagnose

// judged is how often the rules were right on planted limits, of cases of seeds below
// 1000: those of 0 to 140 that were wrong once, and kinds of 400 to 515 one by one.
// What is printed by
//
//	make judge SEEDS=0-140 JUDGE=-quick
//	bin/judge-labs -count -seeds 0-140
//
// goes here, after each change of the rules that matters.
func judged() map[string]tally {
	return map[string]tally{
		"ceiling":     {20, 20},
		"B14":         {12, 12},
		"B06 in part": {8, 11},
		"B10 in part": {9, 11},
		"B10":         {8, 8},
		"B07":         {7, 7},
		"B09":         {6, 6},
		"B21":         {6, 6},
		"B06":         {4, 4},
		"B08":         {4, 4},
		"B16":         {4, 4},
		"B18":         {2, 2},
		"B23":         {2, 2},
		"B07 in part": {0, 1},
	}
}
