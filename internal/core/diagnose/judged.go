package diagnose

// judged is how often the rules were right on planted limits, in cases of seeds below 1000:
//
//   - 200 to 259 as drawn, 400 to 515 kind by kind, and those of 0 to 140 that were once wrong,
//     with the present rules
//   - 300 to 359 as drawn, with rules that had not seen them
//   - machines: seeds 2 to 7 of each kind
//   - the kinds narrow-back (seeds 0 to 5) and left-early (0 to 7), which no seed covered before
//
// After each relevant change of the rules, replace it by the output of
//
//	make judge SEEDS=200-259 JUDGE=-quick
//	bin/judge-labs -count -seeds 200-259
func judged() map[string]tally {
	return map[string]tally{
		"ceiling":      {196, 196},
		"B10 in part":  {36, 37},
		"B01":          {36, 36},
		"B16":          {34, 34},
		"B31":          {28, 28},
		"B01 in part":  {23, 23},
		"B07":          {20, 20},
		"B06":          {18, 18},
		"B14":          {18, 18},
		"B06 in part":  {15, 17},
		"B10":          {16, 16},
		"M1":           {16, 16},
		"B21":          {14, 15},
		"B02":          {12, 12},
		"B03":          {12, 12},
		"B09":          {10, 10},
		"B18":          {10, 10},
		"B29":          {10, 10},
		"B04":          {6, 6},
		"R01":          {6, 6},
		"R01 in part":  {6, 6},
		"B08":          {6, 6},
		"B23":          {5, 6},
		"B25":          {6, 6},
		"B14b in part": {5, 5},
		"M2":           {5, 5},
		"B17":          {2, 2},
		"B30":          {2, 2},
		"M8":           {2, 2},
	}
}
