package forgehttp

import (
	"errors"
	"io"
	"strings"
)

// tail reads at most MaxLog bytes and returns the last ones as valid UTF-8. A text that was not read
// to its end says so, because its last bytes are missing.
func tail(r io.Reader, most int) (string, error) {
	if most <= 0 {
		return "", nil
	}
	var kept []byte
	chunk := make([]byte, 32<<10)
	for read := 0; ; {
		n, err := r.Read(chunk)
		read += n
		kept = append(kept, chunk[:n]...)
		if len(kept) > 2*most+len(chunk) {
			kept = append(kept[:0], kept[len(kept)-most:]...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return LastBytes(string(kept), most), nil
		case err != nil && read > 0 && errors.Is(err, errTooLarge):
			return LastBytes(string(kept), most-len(cutNote)) + cutNote, nil
		case err != nil:
			return "", err
		}
	}
}

const cutNote = "\n[the log is longer; its end was not read]\n"

// LastBytes returns the end of a text, at most most bytes. It begins with a whole character.
func LastBytes(text string, most int) string {
	text = text[max(len(text)-max(most, 0), 0):]
	return strings.ToValidUTF8(text, "")
}
