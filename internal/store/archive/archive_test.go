package archive_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/confined"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/archive"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
	"linerate/internal/store/tables"
)

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// filled returns a store of three random sessions, each with samples.
func filled(t *testing.T) (*sqlite.Store, map[string]model.Session) {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "from.db"))
	all := map[string]model.Session{}
	for n, id := range []string{"one", "two", "three"} {
		sess := storetest.Session(id).Example(n)
		sess.State = model.SessionDone
		runs := sess.Runs
		sess.Runs = nil
		must.Do(t, s.CreateSession(t.Context(), sess))
		for _, r := range runs {
			must.Do(t, s.AddRun(t.Context(), id, r, storetest.Samples().Example(r.Number), nil))
		}
		sess.Runs = runs
		all[id] = sess
	}
	return s, all
}

// TestSchema1 reads an archive of the first release, which every later linerate must read.
func TestSchema1(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/schema1.lra"))(t)
	a := must.Get(archive.Open(t.Context(), bytes.NewReader(b)))(t)
	s, err := a.Session(t.Context(), "last")
	err = errors.Join(err, a.Close())
	must.True(t, err == nil && len(s.Runs) == 2 && s.Note == "before the new switch", "%d runs, note %q, %v", len(s.Runs), s.Note, err)
}

func TestRoundTrip(t *testing.T) {
	from, all := filled(t)
	for name, ids := range map[string][]string{"all": nil, "two of them": {"one", "three"}} {
		var b bytes.Buffer
		must.Do(t, archive.Write(t.Context(), &b, from, ids))
		must.True(t, archive.Is(b.Bytes()[:min(4096, b.Len())]), "%s: it is not known as an archive", name)
		a := must.Get(archive.Open(t.Context(), &b))(t)
		defer a.Close()
		items, err := a.Sessions(t.Context(), store.Filter{})
		want := len(ids)
		must.Need(t, err == nil && (len(items) == want || want <= 0 && len(items) == len(all)), "%s: %d sessions, %v", name, len(items), err)
		for _, i := range items {
			got, err := a.Session(t.Context(), i.ID)
			d := storetest.Diff(all[i.ID], got)
			must.True(t, err == nil && d == "", "%s: %v; stored (-), from the archive (+):\n%s", name, err, d)
			for _, r := range got.Runs {
				samples, err := a.Samples(t.Context(), i.ID, r.Number)
				d := storetest.Diff(storetest.Samples().Example(r.Number), samples)
				must.True(t, err == nil && d == "", "%s: %v; samples stored (-), from the archive (+):\n%s", name, err, d)
			}
		}
	}
}

// TestDamaged cuts and changes an archive at many places, and passes other data: none of it
// opens.
func TestDamaged(t *testing.T) {
	from, _ := filled(t)
	var b bytes.Buffer
	must.Do(t, archive.Write(t.Context(), &b, from, nil))
	whole := b.Bytes()
	refuse := func(name string, text []byte, want error) {
		t.Helper()
		a, err := archive.Open(t.Context(), bytes.NewReader(text))
		must.Is(t, err, want, "%s", name)
		if err == nil {
			_ = a.Close()
		}
	}
	for i := 1; i <= 12; i++ {
		refuse("cut", whole[:len(whole)*i/13], archive.ErrDamaged)
		changed := bytes.Clone(whole)
		changed[10+(len(whole)-11)*i/13] ^= 0x10 // behind the header, whose time and system do not matter
		refuse("changed", changed, archive.ErrDamaged)
	}
	pack := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		must.Do(t, errors.Join(must.Err(z.Write(text)), z.Close()))
		return b.Bytes()
	}
	refuse("a text", []byte("time,rate\n1,2\n"), archive.ErrDamaged)
	refuse("a packed text", pack([]byte("time,rate\n1,2\n")), archive.ErrDamaged)
	db := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(whole)))(t)))(t)
	refuse("half a store", pack(db[:len(db)/2]), archive.ErrDamaged)
	newer := bytes.Clone(db)
	newer[63] = 99 // the last byte of user_version (sqlite.org/fileformat.html section 1.3)
	refuse("a newer store", pack(newer), store.ErrNewer)
	must.True(t, !archive.Is(pack([]byte("{}"))) && !archive.Is([]byte("text")) && !archive.Is(nil), "something else is known as an archive")
}

// TestBomb: an archive that unpacks to far more than its size is refused before it fills the
// disk, whether its database states that size or not.
func TestBomb(t *testing.T) {
	from, _ := filled(t)
	path := filepath.Join(t.TempDir(), "bomb.db")
	must.Do(t, from.Snapshot(t.Context(), path))
	db := must.Get(os.ReadFile(path))(t)
	const zeros = 1 << 30 // bytes declared
	for name, honest := range map[string]bool{"it says how large it is": true, "it does not": false} {
		head := bytes.Clone(db)
		if honest {
			page := int(binary.BigEndian.Uint16(head[16:]))
			binary.BigEndian.PutUint32(head[28:], uint32((len(db)+zeros)/page))
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(head)
		for chunk := make([]byte, 1<<20); err == nil && b.Len() < 128<<10; { // a thousand times as many zeros
			_, err = z.Write(chunk)
		}
		must.Do(t, errors.Join(err, z.Close()))
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		read := &most{from: &b, dir: temp}
		a, err := archive.Open(t.Context(), read)
		must.True(t, errors.Is(err, archive.ErrDamaged) && strings.Contains(err.Error(), "unpacks to more"), "%s: %v", name, err)
		if err == nil {
			_ = a.Close()
		}
		must.True(t, read.size >= 1 && read.size <= 32<<20, "%s: %d bytes were on the disk", name, read.size)
	}
}

// most measures the contents of a folder at every read.
type most struct {
	from io.Reader
	dir  string
	size int64
}

func (m *most) Read(b []byte) (int, error) {
	_ = filepath.WalkDir(m.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				m.size = max(m.size, info.Size())
			}
		}
		return nil
	})
	return m.from.Read(b)
}

// TestFewBytesManyObjects: an archive of 100 kB whose lists are as long as allowed takes a
// bounded amount of memory, and one with longer lists is refused. The import of a long session
// goes run by run: decoded, its 12,000 histograms take 225 MB.
func TestFewBytesManyObjects(t *testing.T) {
	confined.Run(t, 150<<20, 60, func(t *testing.T) {
		for runs, want := range map[int]error{5: nil, 12: tables.ErrTooLarge} {
			s := open(t, filepath.Join(t.TempDir(), "many.db"))
			must.Do(t, s.CreateSession(t.Context(), model.Session{ID: "it", State: model.SessionDone}))
			for n := range runs {
				must.Do(t, s.AddRun(t.Context(), "it", model.Run{Number: n + 1, Ends: make([]model.EndReport, 9_900)}, nil, nil))
			}
			var b bytes.Buffer
			must.Do(t, archive.Write(t.Context(), &b, s, nil))
			must.True(t, b.Len() < 100<<10, "an archive of %d bytes", b.Len())
			a := must.Get(archive.Open(t.Context(), &b))(t)
			must.Is(t, must.Err(a.Session(t.Context(), "it")), want, "%d runs", runs)
			must.OK(t, a.Close())
		}
		s, to := open(t, filepath.Join(t.TempDir(), "long.db")), open(t, filepath.Join(t.TempDir(), "to.db"))
		long, times := model.Session{ID: "long"}, model.Latency{Times: new(hist.Histogram)}
		ends := []model.EndReport{{Latencies: []model.Latency{times, times, times, times}}}
		for n := range 3_000 {
			long.Runs = append(long.Runs, model.Run{Number: n + 1, Ends: ends})
		}
		must.Do(t, s.CreateSession(t.Context(), long))
		var b bytes.Buffer
		must.Do(t, archive.Write(t.Context(), &b, s, []string{"long"}))
		a := must.Get(archive.Open(t.Context(), &b))(t)
		must.OK(t, errors.Join(to.Import(t.Context(), a, []string{"long"}), a.Close()))
		must.Equal(t, len(must.Get(to.Brief(t.Context(), "long"))(t).Runs), len(long.Runs), "runs")
	})
}

// TestBackupInUse archives a store while another connection writes to it: each archive shows
// one moment, with whole runs and no gap, and the writer never fails.
func TestBackupInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.db")
	writer, reader := open(t, path), open(t, path)
	must.Do(t, writer.CreateSession(t.Context(), model.Session{ID: "busy", State: model.SessionRunning}))
	stop, done := make(chan struct{}), make(chan error, 1)
	written := make(chan int, 1)
	go func() {
		n := 0
		defer func() { written <- n }()
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := writer.AddRun(t.Context(), "busy", model.Run{Number: n + 1}, make([]model.Sample, 300), []model.Change{{Run: n + 1}}); err != nil {
				done <- err
				return
			}
			n++
		}
	}()
	last := -1
	for range 5 {
		var b bytes.Buffer
		must.Do(t, archive.Write(t.Context(), &b, reader, nil))
		a := must.Get(archive.Open(t.Context(), &b))(t)
		sess, err := a.Session(t.Context(), "busy")
		must.True(t, err == nil && sess.State == model.SessionStopped && len(sess.Changes) == len(sess.Runs) && len(sess.Runs) >= last,
			"%d runs, %d changes, %s, %v", len(sess.Runs), len(sess.Changes), sess.State, err)
		last = len(sess.Runs)
		for i, r := range sess.Runs {
			samples, err := a.Samples(t.Context(), "busy", r.Number)
			must.Need(t, err == nil && r.Number == i+1 && len(samples) == 300, "run %d at %d: %d samples, %v", r.Number, i, len(samples), err)
		}
		must.OK(t, a.Close())
	}
	close(stop)
	must.OK(t, <-done)
	n := <-written
	must.True(t, last >= 1 && n >= last, "%d runs written, %d in the last archive", n, last)
}
