package releases

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// decodeKey decodes the value of a key of an object of JSON, without keeping in memory what is before it.
// What follows is not read. The key must have no escapes.
func decodeKey(in io.Reader, key string, value any) error {
	r := bufio.NewReaderSize(in, 64<<10)
	if err := seekKey(r, key); err != nil {
		return err
	}
	return json.NewDecoder(r).Decode(value)
}

var errNoKey = errors.New("the answer has another form")

// seekKey reads until after the colon that follows a key of the outermost object.
func seekKey(r *bufio.Reader, key string) error {
	depth, isKey := 0, false
	for {
		b, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return errNoKey
		}
		if err != nil {
			return err
		}
		switch b {
		case '{', '[':
			depth++
			isKey = depth == 1 && b == '{'
		case '}', ']':
			depth--
		case ',':
			isKey = depth == 1
		case ':':
			isKey = false
		case '"':
			text, err := readString(r, len(key), isKey)
			if err != nil {
				return err
			}
			if isKey && text == key {
				return skipColon(r)
			}
		}
	}
}

// readString reads to the end of a string, and returns its first bytes if they are wanted: one more than
// most, so that a longer one differs.
func readString(r *bufio.Reader, most int, wanted bool) (string, error) {
	var text []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return "", io.ErrUnexpectedEOF
		}
		if b == '"' {
			return string(text), nil
		}
		if wanted && len(text) <= most {
			text = append(text, b)
		}
		if b == '\\' {
			if _, err := r.ReadByte(); err != nil {
				return "", io.ErrUnexpectedEOF
			}
		}
	}
}

func skipColon(r *bufio.Reader) error {
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return io.ErrUnexpectedEOF
		case b == ':':
			return nil
		case b != ' ' && b != '\n' && b != '\r' && b != '\t':
			return errNoKey
		}
	}
}
