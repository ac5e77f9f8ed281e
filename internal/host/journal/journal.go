// Package journal records on disk what linerate changes on a host, before each change, so
// that another process can undo it.
//
// The journal is a file of lines, in two copies, in a directory that one process at a time
// may write to. Each line is one record with a number and a checksum. When Append returns, it
// is on disk (fsync) in the first copy, journal.jsonl, and then in the second,
// journal-b.jsonl: whenever a machine goes down, one of them is intact.
//
// Open reads both as one and repairs differences. A record that is whole in either copy is
// never lost: whole records between damaged ones are found. Remains of a record whose Append
// did not return are dropped. Anything else that is in neither copy is Damage: the damaged
// files are saved beside the journal, and Unacknowledged lists them until the user has seen
// them. A journal with records of a newer linerate is not opened, and stays unchanged.
package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/linkid"
)

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	KindIntent    Kind = "intent"    // about to be written to the host
	KindApplied   Kind = "applied"   // written; Text is what was read back
	KindConfirmed Kind = "confirmed" // the user keeps the whole transaction, until it is undone by hand
	KindRevoked   Kind = "revoked"   // the user undoes what was confirmed: the intent is open again
	KindUndone    Kind = "undone"    // the old value is back
	KindForeign   Kind = "foreign"   // another program changed it meanwhile: left alone
	KindFailed    Kind = "failed"    // can no longer be undone; Detail says why
	KindClosed    Kind = "closed"    // the whole transaction is over
	KindHealed    Kind = "healed"    // of no transaction: Detail says what was damaged in one copy and whole in the other
)

// Origin is where a change was made: after a reboot or in another network namespace the same
// setting means something else.
type Origin struct {
	Boot  string `json:"boot,omitempty"`  // identity of the boot; "" is unknown
	Netns uint64 `json:"netns,omitempty"` // inode of the network namespace; 0 is unknown or none
	PID   int    `json:"pid"`             // of the process that made it
}

// Intent is one change of one knob.
type Intent struct {
	Host     model.Host     `json:"host"`
	Knob     model.KnobID   `json:"knob"`
	Place    hostknob.Place `json:"place"`
	Old      string         `json:"old"` // native text to restore: the one before the transaction
	New      string         `json:"new"` // native text to write
	Deadline time.Time      `json:"deadline"`
	Origin   Origin         `json:"origin"`
	// Link is the interface of Place; nil for none, and for one of which only the name was
	// known.
	Link *linkid.ID `json:"link,omitempty"`
	// Member means that the setting depends on that of another interface in the same
	// transaction: a port of a bridge needs the bridge's MTU.
	Member bool `json:"member,omitempty"`
	// Limit is for a command: how long it may take. Its Old is the command that undoes it,
	// its New the one to run.
	Limit time.Duration `json:"limit_ns,omitempty"`
}

// Record is one line of the journal.
type Record struct {
	Kind        Kind      `json:"kind"`
	Transaction string    `json:"transaction"`
	Number      int       `json:"number,omitempty"` // of the intent within its transaction, 1…; 0 for KindConfirmed, KindClosed and KindHealed
	Time        time.Time `json:"time"`
	Intent      *Intent   `json:"intent,omitempty"` // of KindIntent
	Text        string    `json:"text,omitempty"`
	Detail      string    `json:"detail,omitempty"`
}

// Unfinished is an intent that has not ended, with everything that was written for it.
type Unfinished struct {
	Transaction string
	Number      int
	Intent
	Wrote     []string // native texts of linerate's: New, and what was read back
	Confirmed bool     // only the user undoes it; else it is open
}

// compactAbove is how many bytes of closed transactions are kept for people to read.
const compactAbove = 64 << 10

// Journal is an open journal. It is not safe for concurrent use; a lock keeps out other
// processes.
type Journal struct {
	dir     Dir
	by      string // version of the linerate that writes
	lock    *lock
	entries []entry
	records []Record // of entries
	damage  []Damage
	text    []byte // of both copies
	files   [2]durable.File
	ok      [2]bool // the copy holds text
	named   bool    // the names of the copies are on disk
	unsaved *merged // damage that is not saved yet; nil for none

	readOnly bool              // on a read-only file system: it cannot take records
	after    func(step string) // for tests: called after each step that a crash may follow
}

// Dir is a state directory.
type Dir struct {
	Path string
	FS   durable.FS // nil means this machine's
}

func (d Dir) files() durable.FS {
	if d.FS == nil {
		return durable.OS{}
	}
	return d.FS
}

// Open is OpenAs for a linerate of unknown version.
func Open(dir string) (*Journal, error) { return OpenAs(dir, "") }

// OpenAs is Dir.Open for a directory of this machine.
func OpenAs(dir, by string) (*Journal, error) { return Dir{Path: dir}.Open(by) }

// Open opens the journal in d for a linerate of version by, which its records name. It
// creates the directory, for this user alone, if it does not exist, and locks it. The error
// wraps ErrLocked and names the holder if another process has the journal open (HeldError),
// ErrNewer (NewerError), fs.ErrPermission if the directory is not writable, or
// durable.ErrUntrusted if this process is root's and others could have written the journal. A
// damaged journal opens; see Damage. So does one on a read-only file system, which takes no
// records: Append then wraps syscall.EROFS.
func (d Dir) Open(by string) (*Journal, error) {
	if err := d.ensure(); err != nil {
		return nil, fmt.Errorf("state directory %s: %w", d.Path, err)
	}
	if err := d.files().Trusted(d.Path); err != nil { // again, now that it exists
		return nil, fmt.Errorf("open journal: %w", err)
	}
	l, err := d.acquire(lockName)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: d, by: by, lock: l}
	if err := j.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", j.Path(), err), j.Close())
	}
	return j, nil
}

// begin does the rest of Open under the lock.
func (j *Journal) begin() error {
	if err := j.load(); err != nil {
		return err
	}
	j.dropUnfinished()
	if !j.readOnly {
		_ = j.Tidy() // with a full disk it stays long, but nothing in it is open
	}
	return nil
}

// step calls the hook of a test.
func (j *Journal) step(name string) {
	if j.after != nil {
		j.after(name)
	}
}

// ensure creates the directory if it does not exist.
func (d Dir) ensure() error {
	if err := d.files().Trusted(d.Path); err != nil {
		return err
	}
	if _, err := d.files().List(d.Path); err == nil {
		return nil
	}
	return d.files().MakeDir(d.Path)
}

// load reads the copies, saves what is damaged, and makes them equal again.
func (j *Journal) load() error {
	texts, err := j.dir.readCopies()
	if err != nil {
		return err
	}
	m := merge(texts)
	if err := m.newer(j.dir.Path); err != nil {
		return err
	}
	for i := range copies {
		durable.Discard(j.dir.files(), j.path(i))
		err := j.reopen(i)
		if errors.Is(err, syscall.EROFS) { // it does not exist either
			j.readOnly = true
		} else if err != nil {
			return err
		}
	}
	j.damage = m.lost
	if m.exact >= 0 {
		j.setEntries(m.entries, m.scans[m.exact].text)
	} else if entries, text, err := j.chain(m.entries); err != nil {
		return err
	} else {
		j.setEntries(entries, text)
	}
	if j.readOnly {
		return nil
	}
	if m.exact >= 0 {
		j.ok[m.exact] = true
	}
	if len(m.lost) > 0 {
		j.unsaved = &m
	}
	// Without disk space, what is known can still be undone.
	if err := j.bothAs(); err == nil && len(m.healed) > 0 {
		_ = j.Append(Record{Kind: KindHealed, Time: time.Now().UTC(), Detail: describe(m.healed)})
	}
	return nil
}

func (j *Journal) setEntries(entries []entry, text []byte) {
	j.entries, j.text, j.records = entries, text, merged{entries: entries}.records()
}

// maxDescribed bounds how many damaged places a text names.
const maxDescribed = 4

func describe(all []Damage) string {
	s := lists.Each(all[:min(len(all), maxDescribed)], func(d Damage) string { return d.String() })
	if n := len(all) - maxDescribed; n > 0 {
		s = append(s, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(s, "; ")
}

// Path returns the name of the journal's first copy.
func (j *Journal) Path() string { return j.path(0) }

// Damage returns what neither copy had whole when the journal was opened. It is not in
// Records and OpenIntents. The damaged copies are saved; see Unacknowledged.
func (j *Journal) Damage() []Damage { return j.damage }

// Records returns all records, oldest first. The slice is the journal's.
func (j *Journal) Records() []Record { return j.records }

// Append writes r and returns when it is on disk. After an error the journal has no part of
// r: do not make the change that it announces. The error wraps syscall.EROFS for a read-only
// journal.
func (j *Journal) Append(r Record) error {
	if err := j.append(r); err != nil {
		return fmt.Errorf("append to %w", err)
	}
	return nil
}

func (j *Journal) append(r Record) error {
	if err := j.writable(); err != nil {
		return err
	}
	if err := j.bothAs(); err != nil {
		return fmt.Errorf("%s: %w", j.Path(), err)
	}
	e := entry{seq: 1, Record: r}
	if n := len(j.entries); n > 0 {
		e.prev = j.entries[n-1].seq
		e.seq = e.prev + 1
	}
	var err error
	if e.raw, err = encode(r, e.seq, e.prev, j.by); err != nil {
		return fmt.Errorf("%s: %w", j.Path(), err)
	}
	for i, f := range j.files {
		j.ok[i] = false
		_, err := f.Write(e.raw)
		j.step("write " + copies[i])
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			// cut it off again, also from the copy before
			j.ok = [2]bool{}
			return errors.Join(fmt.Errorf("%s: %w", j.path(i), err), j.bothAs())
		}
		j.step("sync " + copies[i])
	}
	j.ok = [2]bool{true, true}
	j.text = append(j.text, e.raw...)
	j.entries = append(j.entries, e)
	j.records = append(j.records, r)
	return nil
}

// Unfinished returns the intents that are not over, oldest first.
func (j *Journal) Unfinished() []Unfinished { return unfinished(j.records) }

// OpenIntents returns the intents that are neither over nor confirmed, oldest first.
func (j *Journal) OpenIntents() []Unfinished { return OpenIntents(j.records) }

// ConfirmedIntents returns the intents that were confirmed and are not over,
// oldest first.
func (j *Journal) ConfirmedIntents() []Unfinished { return ConfirmedIntents(j.records) }

// OpenIntents returns the intents in records that are neither over nor confirmed, oldest
// first: if a crash left them, they must be undone.
func OpenIntents(records []Record) []Unfinished {
	return slices.DeleteFunc(unfinished(records), func(u Unfinished) bool { return u.Confirmed })
}

// ConfirmedIntents returns the intents in records that were confirmed and are not over,
// oldest first: only the user undoes them.
func ConfirmedIntents(records []Record) []Unfinished {
	return slices.DeleteFunc(unfinished(records), func(u Unfinished) bool { return !u.Confirmed })
}

// unfinished returns the intents that have not ended.
func unfinished(records []Record) []Unfinished {
	type key struct {
		transaction string
		number      int
	}
	over := make(map[key]bool) // number 0: the whole transaction
	kept := make(map[string]bool)
	revoked := make(map[key]bool)
	wrote := make(map[key][]string)
	for _, r := range records {
		k := key{r.Transaction, r.Number}
		switch r.Kind {
		case KindUndone, KindForeign, KindFailed, KindClosed:
			over[k] = true
		case KindConfirmed:
			kept[r.Transaction] = true
		case KindRevoked:
			revoked[k] = true
		case KindApplied:
			wrote[k] = append(wrote[k], r.Text)
		case KindIntent:
			wrote[k] = append(wrote[k], r.Intent.New)
		case KindHealed: // of the journal itself
		}
	}
	var all []Unfinished
	for _, r := range records {
		k := key{r.Transaction, r.Number}
		if r.Kind != KindIntent || over[k] || over[key{r.Transaction, 0}] {
			continue
		}
		all = append(all, Unfinished{
			Transaction: r.Transaction, Number: r.Number, Intent: *r.Intent, Wrote: wrote[k], Confirmed: kept[r.Transaction] && !revoked[k],
		})
	}
	return all
}

// Closed reports whether the journal was closed: it then takes no records.
func (j *Journal) Closed() bool { return j.lock.file == nil }

// Close releases the journal for others. It is idempotent. A half-written confirmation
// belongs to a killed process, or comes too late.
func (j *Journal) Close() error {
	if !j.Closed() && !j.readOnly {
		j.dropUnfinished()
	}
	var errs []error
	for i, f := range j.files {
		if f != nil {
			errs = append(errs, f.Close())
			j.files[i] = nil
		}
	}
	return errors.Join(append(errs, j.lock.release())...)
}

// Read is Dir.Read for a directory of this machine.
func Read(dir string) ([]Record, []Damage, error) { return Dir{Path: dir}.Read() }

// Read returns the records and the damage in d without a lock, for display, while another
// process may be writing. Without a journal there are no records. The error wraps ErrNewer,
// and durable.ErrUntrusted as that of OpenAs does.
func (d Dir) Read() ([]Record, []Damage, error) {
	if err := d.files().Trusted(d.Path); err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	texts, err := d.readCopies()
	if err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	m := merge(texts)
	if err := m.newer(d.Path); err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	return m.records(), m.lost, nil
}
