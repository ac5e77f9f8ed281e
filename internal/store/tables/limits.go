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

// A store may come from elsewhere: as a file, in an archive, or as rows of a server
// that others write to. What is read from it is bounded before memory is taken for it.
const (
	// MaxValue is the length in bytes of one text or blob.
	MaxValue = 32 << 20
	// MaxSamples is how many samples a run may have: 33 hours of 70 a second.
	MaxSamples = 1 << 23

	maxTexts = 512 << 20 // bytes of all texts of one session in one table
	maxRows  = 1 << 20   // of one session in one table, and of a list

	// JSON takes far more memory decoded than as text: written as {}, an interface of a
	// host takes 1.3 kB and an end of a run 280 bytes, so that these take 360 MB at most.
	// A real run has about 100 objects, and an interface 30.
	maxObjects    = 60_000    // in one text
	maxAllObjects = 1_000_000 // in all texts that one transaction reads
	maxElements   = 16 << 20  // of lists and objects, in all texts that one transaction reads
)

// ErrTooLarge says that what a store holds is larger than anything that linerate writes.
var ErrTooLarge = errors.New("larger than linerate writes")

// ErrEndless says that reading a store takes longer than any store of linerate.
var ErrEndless = errors.New("damaged, or made so that reading it never ends")

// fits checks the rows of a table that where chooses: how many there are, and how long
// their texts are, before any of them is fetched.
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

// textBytes is the length of the texts and blobs that a row was read into.
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

// budget counts what one transaction has decoded.
type budget struct{ objects, elements int }

// take counts the objects and elements of a JSON text, and says if they are too many.
func (b *budget) take(text string) error {
	objects, elements, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			objects++
		case c == ',', c == '[':
			elements++
		}
	}
	b.objects, b.elements = b.objects+objects, b.elements+elements
	if objects > maxObjects || b.objects > maxAllObjects || b.elements > maxElements {
		return fmt.Errorf("%w: JSON of %d bytes with %d objects and %d elements", ErrTooLarge, len(text), objects, elements)
	}
	return nil
}
