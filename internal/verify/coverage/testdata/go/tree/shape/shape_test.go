package shape

import "testing"

func TestHalf(t *testing.T) {
	if (Box{2, 3}).Half() != 3 {
		t.Fatal()
	}
}
