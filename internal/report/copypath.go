package report

import (
	"slices"
	"time"

	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// PathTrial is one file written to a mounted path, or read back. It has those fields of
// filecopy.PathTrial that reports show.
type PathTrial struct {
	Operation string // "write", "read"
	Size      units.Bytes
	Took      time.Duration
	Flush     time.Duration // part of Took until the file was flushed and closed
	Rate      units.BitRate
	How       string
}

// PathDocument is the report of copies over a mounted path.
type PathDocument struct {
	Folder   string    `json:"folder"`
	Volume   string    `json:"volume"` // "nfs4 from nas:/export"
	Rows     []PathRow `json:"rows"`
	Warnings []string  `json:"warnings"`
}

// PathRow is one operation with files of one size.
type PathRow struct {
	Operation string        `json:"operation"`
	Size      units.Bytes   `json:"size"`
	Files     int           `json:"files"`
	Rate      units.BitRate `json:"rate"` // median over files
	Low       units.BitRate `json:"low"`
	High      units.BitRate `json:"high"`
	Flush     float64       `json:"flush"` // share of the time spent flushing, median, 0…1
	How       []string      `json:"how"`   // each method that occurred
}

// BuildPath returns the report of trials on folder, which is on volume.
func BuildPath(folder, volume string, trials []PathTrial, warnings []string) PathDocument {
	d := PathDocument{Folder: folder, Volume: volume, Rows: []PathRow{}, Warnings: append([]string{}, warnings...)}
	type key struct {
		operation string
		size      units.Bytes
	}
	rates, flushes := map[key][]float64{}, map[key][]float64{}
	for _, t := range trials {
		k := key{t.Operation, t.Size}
		i := slices.IndexFunc(d.Rows, func(r PathRow) bool { return r.Operation == t.Operation && r.Size == t.Size })
		if i < 0 {
			i = len(d.Rows)
			d.Rows = append(d.Rows, PathRow{Operation: t.Operation, Size: t.Size})
		}
		rates[k] = append(rates[k], float64(t.Rate))
		flushes[k] = append(flushes[k], t.Flush.Seconds()/max(t.Took.Seconds(), 1e-9))
		if t.How != "" && !slices.Contains(d.Rows[i].How, t.How) {
			d.Rows[i].How = append(d.Rows[i].How, t.How)
		}
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		all := rates[key{r.Operation, r.Size}]
		r.Files, r.Flush = len(all), stats.Median(flushes[key{r.Operation, r.Size}])
		r.Rate, r.Low, r.High = units.BitRate(stats.Median(all)), units.BitRate(slices.Min(all)), units.BitRate(slices.Max(all))
	}
	slices.SortStableFunc(d.Rows, func(a, b PathRow) int { return int(min(1, max(-1, a.Size-b.Size))) })
	return d
}
