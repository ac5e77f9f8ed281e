// Package journal is the record on disk of what linerate changes on a host,
// written before each change so that another process can undo it.
//
// The journal is one file of lines in a directory that one process at a time
// may write. Each line is one record with a checksum, and is on disk (fsync)
// when Append returns:
//
//	{"v":1,"crc":"9a3c11f0","record":{"kind":"intent","transaction":…}}
//
// A last line without its line feed is what a crash leaves of a record that
// was never promised; it is dropped. Any other unreadable line is damage: it is
// reported, the journal takes no more records, and Compact saves the damaged
// file before it writes a new one.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/host/durable"
	"linerate/internal/host/knob"
)

// Kind is what a record says.
type Kind string

// The kinds of records.
const (
	KindIntent    Kind = "intent"    // about to be written to the host
	KindApplied   Kind = "applied"   // written; Text is what was read back
	KindConfirmed Kind = "confirmed" // a person keeps the whole transaction, until it is undone by hand
	KindUndone    Kind = "undone"    // the old value is back
	KindForeign   Kind = "foreign"   // somebody else changed it meanwhile: left alone
	KindFailed    Kind = "failed"    // cannot be undone any more; Detail says why
	KindClosed    Kind = "closed"    // the whole transaction is over
)

// Origin is where a change was made: the same setting means another thing after
// a restart or in another network namespace.
type Origin struct {
	Boot  string `json:"boot,omitempty"`  // identity of the machine's run since its start; "" is unknown
	Netns uint64 `json:"netns,omitempty"` // inode of the network namespace; 0 is unknown or none
	PID   int    `json:"pid"`             // of the process that made it
}

// Intent is one change of one knob.
type Intent struct {
	Host     model.Host   `json:"host"`
	Knob     model.KnobID `json:"knob"`
	Place    knob.Place   `json:"place"`
	Old      string       `json:"old"` // native text to go back to: the one before the transaction
	New      string       `json:"new"` // native text that is written
	Deadline time.Time    `json:"deadline"`
	Origin   Origin       `json:"origin"`
}

// Record is one line of the journal.
type Record struct {
	Kind        Kind      `json:"kind"`
	Transaction string    `json:"transaction"`
	Number      int       `json:"number,omitempty"` // of the intent within its transaction, 1…; 0 for KindConfirmed and KindClosed
	Time        time.Time `json:"time"`
	Intent      *Intent   `json:"intent,omitempty"` // of KindIntent
	Text        string    `json:"text,omitempty"`
	Detail      string    `json:"detail,omitempty"`
}

// Unfinished is an intent without an end, with everything that was written for it.
type Unfinished struct {
	Transaction string
	Number      int
	Intent
	Wrote []string // native texts that are ours: New, and what was read back
}

// Damage is a line that cannot be read.
type Damage struct {
	Line   int // 1…
	Reason string
}

// ErrDamaged says that the journal holds lines that cannot be read and takes no
// records until Compact has saved it.
var ErrDamaged = errors.New("the journal is damaged")

const (
	fileName     = "journal.jsonl"
	version      = 1
	compactAbove = 64 << 10 // bytes of closed transactions that are kept for people to read
)

// Journal is an open journal. It is not safe for concurrent use; other
// processes are kept out by a lock.
type Journal struct {
	dir     string
	lock    *lock
	file    *os.File
	size    int64 // of the good part of the file
	dirty   bool  // something after size may be on disk
	records []Record
	damage  []Damage

	readOnly bool // its file system is: there is no place for records
}

// Open opens the journal in dir, which it makes for this user alone where it
// does not exist, and locks it. The error wraps ErrLocked and names the holder
// when another process has it open, and fs.ErrPermission when dir may not be
// written. A damaged journal opens; see Damage. So does one on a read-only file
// system, which takes no records: Append then wraps syscall.EROFS. It wraps
// durable.ErrUntrusted where root is asked to believe a journal that others could
// have written.
func Open(dir string) (*Journal, error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("state directory %s: %w", dir, err)
	}
	if err := durable.Trusted(dir); err != nil { // once more: it may not have been there
		return nil, fmt.Errorf("open journal: %w", err)
	}
	l, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, lock: l}
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", j.Path(), err), j.Close())
	}
	j.dropUnfinished()
	if len(j.damage) == 0 && !j.readOnly {
		if err := j.Tidy(); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// makeDir makes dir and has its name on disk.
func makeDir(dir string) error {
	if err := durable.Trusted(dir); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// load opens the file, reads it, and cuts a torn tail off.
func (j *Journal) load() error {
	f, readOnly, err := openWritable(j.Path(), os.O_APPEND)
	if err != nil {
		return err
	}
	j.file, j.readOnly = f, readOnly
	text, err := os.ReadFile(j.Path())
	if err != nil {
		return err
	}
	var torn int
	j.records, j.damage, torn = parse(text)
	j.size = int64(len(text) - torn)
	if readOnly {
		return nil
	}
	if torn > 0 {
		j.dirty = true
		if err := j.repair(); err != nil {
			return err
		}
	}
	return durable.SyncDir(j.dir)
}

// Path returns the name of the journal's file.
func (j *Journal) Path() string { return filepath.Join(j.dir, fileName) }

// Damage returns the lines that could not be read. What they said is not among
// Records and OpenIntents.
func (j *Journal) Damage() []Damage { return j.damage }

// Records returns all records, oldest first. The slice is the journal's.
func (j *Journal) Records() []Record { return j.records }

// Append writes r and returns when it is on disk. On an error nothing of r is
// in the journal: do not make the change that it announces. The error wraps
// ErrDamaged for a damaged journal, and syscall.EROFS for a read-only one.
func (j *Journal) Append(r Record) error {
	if err := j.writable(); err != nil {
		return err
	}
	line, err := encode(r)
	if err != nil {
		return fmt.Errorf("append to %s: %w", j.Path(), err)
	}
	if err := j.repair(); err != nil {
		return fmt.Errorf("append to %s: %w", j.Path(), err)
	}
	j.dirty = true
	_, err = j.file.Write(line)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("append to %s: %w", j.Path(), err), j.repair())
	}
	j.dirty = false
	j.size += int64(len(line))
	j.records = append(j.records, r)
	return nil
}

// repair cuts off what a failed write or a crash left behind the last record.
func (j *Journal) repair() error {
	if !j.dirty {
		return nil
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.dirty = false
	return nil
}

// OpenIntents returns the intents that are neither over nor confirmed, oldest first.
func (j *Journal) OpenIntents() []Unfinished { return OpenIntents(j.records) }

// ConfirmedIntents returns the intents that were confirmed and are not over,
// oldest first.
func (j *Journal) ConfirmedIntents() []Unfinished { return ConfirmedIntents(j.records) }

// OpenIntents returns the intents among records that are neither over nor
// confirmed, oldest first: what a crash leaves of them has to be undone.
func OpenIntents(records []Record) []Unfinished {
	open, _ := unfinished(records)
	return open
}

// ConfirmedIntents returns the intents among records that were confirmed and are
// not over, oldest first: only a person undoes them.
func ConfirmedIntents(records []Record) []Unfinished {
	_, confirmed := unfinished(records)
	return confirmed
}

// unfinished are the intents without an end.
func unfinished(records []Record) (open, confirmed []Unfinished) {
	type key struct {
		transaction string
		number      int
	}
	over := make(map[key]bool) // number 0: the whole transaction
	kept := make(map[string]bool)
	wrote := make(map[key][]string)
	for _, r := range records {
		k := key{r.Transaction, r.Number}
		switch r.Kind {
		case KindUndone, KindForeign, KindFailed, KindClosed:
			over[k] = true
		case KindConfirmed:
			kept[r.Transaction] = true
		case KindApplied:
			wrote[k] = append(wrote[k], r.Text)
		case KindIntent:
			wrote[k] = append(wrote[k], r.Intent.New)
		}
	}
	for _, r := range records {
		k := key{r.Transaction, r.Number}
		if r.Kind != KindIntent || over[k] || over[key{r.Transaction, 0}] {
			continue
		}
		u := Unfinished{Transaction: r.Transaction, Number: r.Number, Intent: *r.Intent, Wrote: wrote[k]}
		if kept[r.Transaction] {
			confirmed = append(confirmed, u)
		} else {
			open = append(open, u)
		}
	}
	return open, confirmed
}

// Close gives the journal free for others. It is idempotent.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
		j.file = nil
	}
	return errors.Join(err, j.lock.release())
}

// Read returns the records in dir and what could not be read, without a lock:
// for people, while another process may be writing. No journal is no records. It
// wraps durable.ErrUntrusted as Open does.
func Read(dir string) ([]Record, []Damage, error) {
	if err := durable.Trusted(dir); err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read journal: %w", err)
	}
	records, damage, _ := parse(text)
	return records, damage, nil
}

// line is the form of a record on disk. The checksum is CRC-32C of the bytes
// of Record as they stand in the line (RFC 3720 section 12.1).
type line struct {
	V      int             `json:"v"`
	CRC    string          `json:"crc"`
	Record json.RawMessage `json:"record"`
}

func checksum(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func encode(r Record) ([]byte, error) {
	if r.Intent != nil && (!utf8.ValidString(r.Intent.Old) || !utf8.ValidString(r.Intent.New)) {
		return nil, fmt.Errorf("old text %q or new text %q of %s cannot be kept: not UTF-8", r.Intent.Old, r.Intent.New, r.Intent.Place)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(line{V: version, CRC: checksum(body), Record: body})
	return append(b, '\n'), err
}

// parse reads a journal and returns how many bytes at its end are torn.
func parse(text []byte) (records []Record, damage []Damage, torn int) {
	for n := 1; len(text) > 0; n++ {
		one, rest, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			return records, damage, len(text)
		}
		text = rest
		r, err := decode(one)
		if err != nil {
			damage = append(damage, Damage{Line: n, Reason: err.Error()})
			continue
		}
		records = append(records, r)
	}
	return records, damage, 0
}

func decode(b []byte) (Record, error) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return Record{}, errors.New("not a record")
	}
	if l.V != version {
		return Record{}, fmt.Errorf("version %d of the format, this program knows %d", l.V, version)
	}
	if l.CRC != checksum(l.Record) {
		return Record{}, errors.New("checksum does not match")
	}
	var r Record
	if err := json.Unmarshal(l.Record, &r); err != nil {
		return Record{}, errors.New("not a record")
	}
	if r.Kind == KindIntent && r.Intent == nil {
		return Record{}, errors.New("intent without its change")
	}
	return r, nil
}
