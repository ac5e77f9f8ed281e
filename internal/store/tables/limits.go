package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A store may be foreign: a file, an archive, or rows of a server that others write to. The
// size of what is read from it is checked before memory is allocated.
const (
	// MaxValue is the largest length in bytes of one text or blob.
	MaxValue = 32 << 20
	// MaxSamples is the most samples of a run: 33 hours at 70 per second.
	MaxSamples = 1 << 23

	maxTexts = 512 << 20 // bytes of all texts of one session in one table
	maxRows  = 1 << 20   // of one session in one table, and of a list

	// JSON takes far more memory decoded than as text: written as {}, an interface of a host
	// takes 1.2 kB and an end of a run 230 bytes. A transaction may read what a small session
	// has, and more only in proportion to the text of a real one: linerate writes 55 to 115
	// bytes per object and 18 per element, but an archive can have 5 and 2.
	maxObjects  = 60_000 // in one text; hosts have 700
	maxItems    = 10_000 // of these in lists; hosts and an end of a run have 100
	minObjects  = 100_000
	minElements = 1 << 20   // of lists and objects
	allObjects  = 1_000_000 // regardless of the text; 9,000 runs have as many
	allElements = 16 << 20

	textOfObject, textOfElement = 16, 8
)

// Packed is the length of an archive. It limits what a store unpacked from it may hold; 0 is a
// store from elsewhere.
type Packed int64

// objects and elements are how many a store may have beyond the minimum.
func (p Packed) objects() int64  { return int64(p) / 2 }
func (p Packed) elements() int64 { return int64(p) * 2 }

// ErrTooLarge reports that the content of a store is larger than anything that linerate writes.
var ErrTooLarge = errors.New("larger than linerate writes")

// ErrEndless reports that reading a store takes more CPU time than any store of linerate needs.
var ErrEndless = errors.New("damaged, or made so that reading it never ends")

// fits checks the rows of a table that where selects: their number and the length of their
// texts, before it fetches any of them.
func fits(ctx context.Context, tx *tx, table, where string, args []any, texts ...string) error {
	var lengths []string
	for _, column := range texts {
		lengths = append(lengths, "CAST(coalesce(octet_length("+column+"), 0) AS BIGINT)")
	}
	longest := lengths[0]
	if len(lengths) > 1 {
		longest = tx.dialect.Greatest + "(" + strings.Join(lengths, ", ") + ")"
	}
	var rows, most, all int64
	err := tx.row(ctx, `SELECT count(*), coalesce(max(most), 0), CAST(coalesce(sum(total), 0) AS BIGINT) FROM
		(SELECT `+longest+` AS most, `+strings.Join(lengths, " + ")+` AS total FROM `+table+` WHERE `+where+` LIMIT `+strconv.Itoa(maxRows+1)+`) AS sizes`, args...).Scan(&rows, &most, &all)
	switch {
	case err != nil:
		return err
	case rows > maxRows:
		return fmt.Errorf("%w: more than %d rows of %s", ErrTooLarge, maxRows, table)
	case most > MaxValue:
		return fmt.Errorf("%w: %s has a text of %d bytes, at most %d are read", ErrTooLarge, table, most, MaxValue)
	case all > maxTexts:
		return fmt.Errorf("%w: %s has %d bytes of text, at most %d are read", ErrTooLarge, table, all, maxTexts)
	}
	return nil
}

// textBytes returns the length of the texts and blobs of a row.
func textBytes(into []any) (n int) {
	for _, one := range into {
		switch v := reflect.Indirect(reflect.ValueOf(one)); {
		case v.Kind() == reflect.String, v.Type() == reflect.TypeFor[[]byte]():
			n += v.Len()
		case v.Type() == reflect.TypeFor[sql.NullString]():
			n += v.Field(0).Len()
		}
	}
	return n
}

// budget counts what one transaction has decoded, and from how many bytes of text.
type budget struct {
	objects, elements, text int64
	packed                  Packed
}

// take counts the objects and elements of a JSON text, and returns an error if there are too
// many.
func (b *budget) take(text string) error {
	objects, items, elements, quoted := 0, 0, 0, false
	last := byte(0) // last character that is not a blank
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			objects++
			if last == '[' || last == ',' { // in an object a name follows the comma
				items++
			}
		case c == ',', c == '[':
			elements++
		}
		if !quoted && c > ' ' {
			last = c
		}
	}
	b.objects, b.elements, b.text = b.objects+int64(objects), b.elements+int64(elements), b.text+int64(len(text))
	moreObjects, moreElements := b.text/textOfObject, b.text/textOfElement
	if b.packed > 0 {
		moreObjects, moreElements = min(moreObjects, b.packed.objects()), min(moreElements, b.packed.elements())
	}
	if objects > maxObjects || items > maxItems || b.objects > min(minObjects+moreObjects, allObjects) || b.elements > min(minElements+moreElements, allElements) {
		return fmt.Errorf("%w: JSON of %d bytes with %d objects and %d elements", ErrTooLarge, len(text), objects, elements)
	}
	return nil
}
