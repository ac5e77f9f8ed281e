package hist

import (
	"cmp"
	"math/big"
	"math/bits"
)

// int128 is a signed 128-bit integer in two's complement. Nanoseconds need it:
// 63 bits hold the sum of no more than 2.6 million hours.
type int128 struct {
	hi int64
	lo uint64
}

func (a int128) add(b int128) int128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return int128{hi: a.hi + b.hi + int64(carry), lo: lo}
}

func (a int128) negate() int128 {
	return int128{hi: ^a.hi, lo: ^a.lo}.add(int128{lo: 1})
}

func (a int128) compare(b int128) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// product returns v × n.
func product(v int64, n uint64) int128 {
	if v < 0 {
		return product128(uint64(-v), n).negate() // right for −2^63 too
	}
	return product128(uint64(v), n)
}

func product128(v, n uint64) int128 {
	hi, lo := bits.Mul64(v, n)
	return int128{hi: int64(hi), lo: lo}
}

// divide returns a / n rounded to nearest, half away from zero. The quotient must fit 64 bits,
// as that of a sum by its number of terms does.
func (a int128) divide(n uint64) int64 {
	if a.hi < 0 {
		return -a.negate().divide(n)
	}
	quotient, rest := bits.Div64(uint64(a.hi), a.lo, n)
	if rest >= n-rest {
		quotient++
	}
	return int64(quotient)
}

// number returns a for the JSON form.
func (a int128) number() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(a.lo))
}

// fromNumber returns n, and false if it does not fit.
func fromNumber(n *big.Int) (int128, bool) {
	hi := new(big.Int).Rsh(n, 64) // rounds down, as two's complement does
	if !hi.IsInt64() {
		return int128{}, false
	}
	lo := new(big.Int).Sub(n, new(big.Int).Lsh(hi, 64))
	return int128{hi: hi.Int64(), lo: lo.Uint64()}, true
}
