package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Piece is a part of a text in one style.
type Piece struct {
	Text  string
	Class string // for the colours of the output
	Found bool   // matches the search
}

// Pieces splits a text into styled parts: it removes control sequences and turns their colours into
// classes. It marks matches of the search, ignoring case.
func Pieces(text, search string) []Piece {
	pieces := []Piece{{Text: text}}
	if strings.ContainsAny(text, "\x1b\u009b\r\b") {
		pieces = coloured(text)
	}
	if search == "" {
		return pieces
	}
	var marked []Piece
	for _, p := range pieces {
		marked = append(marked, found(p, search)...)
	}
	return marked
}

// Plain returns a text without control sequences.
func Plain(text string) string {
	var out strings.Builder
	for _, p := range Pieces(text, "") {
		out.WriteString(p.Text)
	}
	return out.String()
}

func coloured(text string) (out []Piece) {
	var now strings.Builder
	look := look{}
	end := func() {
		if now.Len() > 0 {
			out = append(out, Piece{Text: now.String(), Class: look.class()})
			now.Reset()
		}
	}
	p := ansi.NewParser()
	p.SetHandler(ansi.Handler{
		Print: func(r rune) { now.WriteRune(r) },
		Execute: func(b byte) {
			if b == '\n' || b == '\t' {
				now.WriteByte(b)
			}
		},
		HandleCsi: func(cmd ansi.Cmd, params ansi.Params) {
			if cmd.Final() == 'm' && cmd.Prefix() == 0 {
				end()
				look.set(params)
			}
		},
	})
	p.Parse([]byte(text))
	end()
	return out
}

// look is the supported part of a terminal's text style: the eight colours, bold and faint.
type look struct {
	colour      int // 1 to 8; 0 means none
	bold, faint bool
}

// The parameters of the terminal sequence "select graphic rendition".
const (
	sgrBold, sgrFaint, sgrNormal    = 1, 2, 22
	sgrColour, sgrBright, sgrColors = 30, 90, 8
	sgrExtended, sgrBackground      = 38, 48
	sgrDefault                      = 39
)

func (l *look) set(params ansi.Params) {
	if len(params) == 0 {
		*l = look{}
	}
	for i := 0; i < len(params); i++ {
		n := params[i].Param(0)
		switch {
		case n == 0:
			*l = look{}
		case n == sgrBold:
			l.bold = true
		case n == sgrFaint:
			l.faint = true
		case n == sgrNormal:
			l.bold, l.faint = false, false
		case n == sgrDefault:
			l.colour = 0
		case n >= sgrColour && n < sgrColour+sgrColors:
			l.colour = n - sgrColour + 1
		case n >= sgrBright && n < sgrBright+sgrColors:
			l.colour = n - sgrBright + 1
		case n == sgrExtended || n == sgrBackground:
			return // 256 colours and more: the parameters that follow belong to it
		}
	}
}

func (l *look) class() string {
	var names []string
	if l.colour > 0 {
		names = append(names, fmt.Sprintf("fg%d", l.colour-1))
	}
	if l.bold {
		names = append(names, "bold")
	}
	if l.faint {
		names = append(names, "dim")
	}
	return strings.Join(names, " ")
}

// found splits a piece at the matches of the search text.
func found(p Piece, search string) (out []Piece) {
	text, low, search := p.Text, strings.ToLower(p.Text), strings.ToLower(search)
	if len(low) != len(text) { // lower case changes the length, so positions would be wrong
		low = text
	}
	for {
		at := strings.Index(low, search)
		if at < 0 {
			return append(out, Piece{Text: text, Class: p.Class})
		}
		if at > 0 {
			out = append(out, Piece{Text: text[:at], Class: p.Class})
		}
		to := at + len(search)
		out = append(out, Piece{Text: text[at:to], Class: p.Class, Found: true})
		text, low = text[to:], low[to:]
	}
}

// FirstLines returns the beginning of a text, limited to a number of lines and of bytes.
func FirstLines(text string, lines, most int) string {
	at := 0
	for range lines {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			at = len(text)
			break
		}
		at += next + 1
	}
	text = text[:at]
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return strings.TrimRight(text, "\n")
}

// Node is a value of a JSON document, with its children in document order.
type Node struct {
	Key     string // in its object; empty in an array and for the document itself
	Kind    byte   // { [ " or 0 for true, false, null and numbers
	Text    string // of a string or another value
	Kids    []Node
	Omitted bool // there are more children than shown
}

// Limits of a tree.
const (
	treeNodes = 2000
	treeDepth = 32
	treeText  = 4000
)

var errTree = errors.New("too deep")

// TreeOf parses a JSON document; ok is false if it is invalid or too deeply nested to show.
func TreeOf(raw []byte) (n Node, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	left := treeNodes
	n, err := value(d, &left, 0)
	if err != nil {
		return Node{}, false
	}
	_, err = d.Token()
	return n, errors.Is(err, io.EOF)
}

func value(d *json.Decoder, left *int, depth int) (n Node, err error) {
	token, err := d.Token()
	if err != nil {
		return n, err
	}
	if depth > treeDepth {
		return n, errTree
	}
	switch v := token.(type) {
	case json.Delim:
		n.Kind = byte(v)
		return n, kids(d, &n, left, depth)
	case string:
		n.Kind, n.Text = '"', Plain(Cut(v, treeText))
	case nil:
		n.Text = "null"
	default:
		n.Text = Cut(fmt.Sprint(v), treeText)
	}
	return n, nil
}

func kids(d *json.Decoder, n *Node, left *int, depth int) error {
	for d.More() {
		var key string
		if n.Kind == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string)
		}
		kid, err := value(d, left, depth+1)
		if err != nil {
			return err
		}
		if *left--; *left < 0 {
			n.Omitted = true
			continue
		}
		kid.Key = Plain(Cut(key, 200))
		n.Kids = append(n.Kids, kid)
	}
	_, err := d.Token()
	return err
}

// IsText reports whether the beginning of a file is text.
func IsText(head []byte) bool {
	if len(head) > utf8.UTFMax { // the last character may be truncated
		for range utf8.UTFMax - 1 {
			if r, _ := utf8.DecodeLastRune(head); r != utf8.RuneError {
				break
			}
			head = head[:len(head)-1]
		}
	}
	return utf8.Valid(head) && !bytes.ContainsRune(head, 0)
}

// Line is a line of a text with its number, from 1.
type Line struct {
	No     int
	Pieces []Piece
}

// Text is a window of the lines of a long text.
type Text struct {
	Href   string // of the page that shows it, without its query
	Lines  []Line
	Prev   int // first line of the previous window; 0 means none
	Next   int // first line of the next window; 0 means none
	Search string
	Short  string // why part of it cannot be shown; empty if all can
}
