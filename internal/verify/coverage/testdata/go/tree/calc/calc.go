package calc

import "errors"

// ErrZero is returned by Div.
var ErrZero = errors.New("division by zero")

func Div(a, b int) (int, error) {
	// The quotient of zero does not exist.
	if b == 0 {
		return 0, ErrZero
	}

	quotient := func() int {
		return a / b
	}
	return quotient(), nil
}

func Unused(n int) int {
	switch {
	case n > 1:
		return 1
	default:
		return 0
	}
}
