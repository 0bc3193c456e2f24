package calc

import "testing"

func TestDiv(t *testing.T) {
	if n, err := Div(6, 2); n != 3 || err != nil {
		t.Fatal(n, err)
	}
}
