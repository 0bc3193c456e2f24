package config

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 64KiB or 10MB.
type Size int64

// The units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// Int64 returns the number of bytes.
func (s Size) Int64() int64 { return int64(s) }

// String formats a size in the largest unit that yields a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// ParseSize reads 64KiB, 10MB, 1.5GiB, or a plain number of bytes. Letters may be upper
// or lower case.
func ParseSize(text string) (Size, error) {
	number, factor := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := cutSuffixFold(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	bytes, ok := scaled(number, factor)
	if !ok {
		return 0, fmt.Errorf("%q is not a valid size", text)
	}
	return Size(bytes), nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// MicroUSD is an amount in millionths of a US dollar, written in dollars: 2.50.
type MicroUSD int64

// USD is one dollar.
const USD MicroUSD = 1_000_000

// Int64 returns the number of millionths.
func (m MicroUSD) Int64() int64 { return int64(m) }

// String writes dollars without a currency sign: 2.5.
func (m MicroUSD) String() string {
	text := new(big.Rat).SetFrac64(int64(m), int64(USD)).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ParseUSD reads dollars with at most six decimals. Nothing is rounded.
func ParseUSD(text string) (MicroUSD, error) {
	micro, ok := scaled(strings.TrimSpace(text), int64(USD))
	if !ok {
		return 0, fmt.Errorf("%q is not a dollar amount", text)
	}
	return MicroUSD(micro), nil
}

// scaled multiplies a plain decimal number exactly. It fails if the product is not a
// whole number or does not fit.
func scaled(number string, factor int64) (int64, bool) {
	const longest = 40 // more digits than any int64 has, few enough to be fast
	if number == "" || len(number) > longest || strings.Trim(number, "0123456789.-") != "" {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, false
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() || !r.Num().IsInt64() || r.Num().Int64() == math.MinInt64 {
		return 0, false
	}
	return r.Num().Int64(), true
}

// formatDuration writes 5m instead of 5m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
