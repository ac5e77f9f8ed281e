package diagnose

// judged is how often the rules were right on planted limits, of cases of seeds below
// 1000: 200 to 259 as they were drawn, 400 to 515 as kinds one by one, and those of 0 to
// 140 that were wrong once, by the rules of today; and 300 to 359 as they were drawn, by
// the rules that had not seen them; and of machines seeds 2 to 5 of each kind. What is printed by
//
//	make judge SEEDS=200-259 JUDGE=-quick
//	bin/judge-labs -count -seeds 200-259
//
// goes here, after each change of the rules that matters.
func judged() map[string]tally {
	return map[string]tally{
		"ceiling":     {169, 169},
		"B10 in part": {34, 35},
		"B16":         {30, 30},
		"B01":         {24, 24},
		"B07":         {20, 20},
		"B14":         {18, 18},
		"B31":         {18, 18},
		"B06":         {16, 16},
		"B10":         {16, 16},
		"B06 in part": {15, 17},
		"B01 in part": {15, 15},
		"B21":         {14, 14},
		"M1":          {12, 12},
		"B09":         {10, 10},
		"B18":         {10, 10},
		"B29":         {10, 10},
		"B02":         {8, 8},
		"B03":         {8, 12},
		"B08":         {6, 6},
		"B23":         {5, 6},
		"M2":          {5, 5},
		"B04":         {4, 4},
		"B25":         {4, 4},
		"B17":         {2, 2},
		"B30":         {2, 2},
		"M8":          {2, 2},
	}
}
