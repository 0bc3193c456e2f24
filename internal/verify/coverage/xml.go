package coverage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Real reports are nested less deeply and have fewer elements.
const (
	maxXMLDepth    = 20
	maxXMLElements = 2_000_000
	maxXMLToken    = 1 << 20 // bytes of a tag, a comment or a text
)

// errXMLToken is the reason why the rest of a document is not read.
var errXMLToken = fmt.Errorf("it has a tag, a comment or a text of more than %d MiB", maxXMLToken>>20)

// tokenBytes are the bytes of a document. Each token may take a limited number of them, because the
// attributes of a single tag may need many times their own size in memory.
type tokenBytes struct {
	bytes.Reader
	left int
}

// ReadByte implements io.ByteReader, which the decoder uses instead of Read.
func (b *tokenBytes) ReadByte() (byte, error) {
	if b.left--; b.left < 0 {
		return 0, errXMLToken
	}
	return b.Reader.ReadByte()
}

// eachElement calls begin for the start of each element of a document, with the names of the elements
// around it, and text for the text in an element. Nothing but the predefined entities is expanded,
// and nothing external is read.
func eachElement(data []byte, begin func(e xml.StartElement, around []string) error, text func(element, content string)) error {
	in := tokenBytes{}
	in.Reset(data)
	d := xml.NewDecoder(&in)
	var open []string
	for elements := 0; ; {
		in.left = maxXMLToken
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil // all elements are closed
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			elements++
			if len(open) >= maxXMLDepth || elements > maxXMLElements {
				return fmt.Errorf("it is nested deeper than %d levels or has more than %d elements", maxXMLDepth, maxXMLElements)
			}
			if err := begin(t, open); err != nil {
				return err
			}
			open = append(open, t.Name.Local)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if text != nil && len(open) > 0 && len(t) < 4<<10 {
				text(open[len(open)-1], string(t))
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// number returns a number in an attribute, 0 if it is none.
func number(e xml.StartElement, name string) int {
	n, err := strconv.Atoi(attribute(e, name))
	if err != nil {
		return 0
	}
	return n
}
