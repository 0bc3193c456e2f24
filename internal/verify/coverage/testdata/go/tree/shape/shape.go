package shape

import "example.com/m/calc"

type Box struct{ W, H int }

func (b Box) Half() int {
	n, err := calc.Div(b.W*b.H, 2)
	if err != nil {
		return 0
	}
	return n
}
