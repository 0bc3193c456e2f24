package tool

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed read_file.md
var readFileDescription string

type readFileParams struct {
	Path      string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File."`
	StartLine int    `json:"start_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line, from 1."`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last line."`
}

func readFile() Tool {
	return defineOnFiles(Definition{Name: ReadFile, Description: readFileDescription, ReadOnly: true},
		func(_ context.Context, f *files, p readFileParams) (Result, error) {
			text, err := f.read(p)
			return Result{OK: true, Text: text}, err
		})
}

func (f *files) read(p readFileParams) (string, error) {
	name, err := cleanPath(p.Path)
	if err != nil {
		return "", err
	}
	start := max(p.StartLine, 1)
	if p.EndLine > 0 && p.EndLine < start {
		return "", refuse("", "end_line %d is before start_line %d.", p.EndLine, start)
	}
	file, info, err := f.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, binaryProbe)
	if head, _ := reader.Peek(binaryProbe); isBinary(head) {
		return "", binaryRefusal(name, info.Size())
	}
	page, err := f.readLines(reader, start, p.EndLine)
	if err != nil {
		return "", explain(name, err)
	}
	return page.text(name, start)
}

// page is a part of a file.
type page struct {
	lines     strings.Builder
	last      int  // last line in it, 0 for none
	total     int  // lines in the part of the file that was read
	cut       bool // more was requested than fits
	readToEnd bool
}

// countLimit limits the bytes of a file that are read to count its lines.
const countLimit = 64 << 20

func (f *files) readLines(reader *bufio.Reader, start, end int) (*page, error) {
	page := &page{}
	read := 0
	for read < countLimit {
		line, size, err := f.readLine(reader)
		read += size
		if size > 0 {
			page.total++
			f.show(page, line, size, start, end)
		}
		if errors.Is(err, io.EOF) {
			page.readToEnd = true
			return page, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// show adds a line to the page if it is requested and fits.
func (f *files) show(page *page, line string, size, start, end int) {
	if page.cut || page.total < start || end > 0 && page.total > end {
		return
	}
	if page.lines.Len()+min(size, f.limits.LineBytes) > f.limits.ReadBytes && page.last > 0 {
		page.cut = true
		return
	}
	numbered(&page.lines, page.total, line, f.limits.LineBytes)
	page.last = page.total
}

// readLine reads a line, keeps only the part that is shown, and returns the full size.
func (f *files) readLine(reader *bufio.Reader) (line string, size int, err error) {
	var kept strings.Builder
	for {
		part, err := reader.ReadSlice('\n')
		size += len(part)
		if room := f.limits.LineBytes + 2 - kept.Len(); room > 0 {
			kept.Write(part[:min(room, len(part))])
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return kept.String(), size, err
		}
	}
}

func (p *page) text(name string, start int) (string, error) {
	switch {
	case p.total == 0 && p.readToEnd:
		return "[" + name + " is empty]\n", nil
	case p.last == 0:
		return "", refuse("", "%s has only %d lines; there is no line %d.", name, p.total, start)
	}
	total := fmt.Sprint(p.total)
	if !p.readToEnd {
		total = "more than " + total
	}
	text := p.lines.String()
	if p.cut {
		text += fmt.Sprintf("[lines %d to %d of %s; continue with start_line %d]\n", start, p.last, total, p.last+1)
	} else if start > 1 || p.last < p.total || !p.readToEnd {
		text += fmt.Sprintf("[lines %d to %d of %s]\n", start, p.last, total)
	}
	return text, nil
}
