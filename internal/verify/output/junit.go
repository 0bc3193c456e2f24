package output

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/joshdk/go-junit"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Real reports have only a few levels. The library stores the text of each element again for every
// enclosing element, so depth multiplies memory use.
const (
	maxXMLDepth    = 12
	maxXMLElements = 400_000
)

// parseJUnit reads a JUnit XML report.
func parseJUnit(data []byte, s Paths) (Results, error) {
	if err := checkXML(data); err != nil {
		return Results{}, err
	}
	suites, err := junit.Ingest(withoutProlog(data))
	if err != nil {
		return Results{}, err
	}
	var out Results
	for _, suite := range suites {
		junitSuite(&out, suite, s, "")
	}
	return out, nil
}

// checkXML rejects XML that no test runner writes or that would be too expensive to parse.
func checkXML(data []byte) error {
	if len(data) > MaxReportBytes {
		return ErrTooLarge
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	depth, elements := 0, 0
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
			elements++
		case xml.EndElement:
			depth--
		case xml.Directive:
			return errors.New("it contains a document type declaration, which a test report never has")
		}
		if depth > maxXMLDepth || elements > maxXMLElements {
			return fmt.Errorf("it is nested deeper than %d levels or has more than %d elements", maxXMLDepth, maxXMLElements)
		}
	}
	if elements == 0 {
		return errors.New("it is empty")
	}
	return nil
}

var xmlProlog = regexp.MustCompile(`^(?:\xef\xbb\xbf)?\s*<\?xml[^>]*\?>`)

// withoutProlog removes the XML declaration: the library wraps the document in an element, where a
// declaration is an error.
func withoutProlog(data []byte) []byte { return xmlProlog.ReplaceAll(data, nil) }

func junitSuite(out *Results, suite junit.Suite, s Paths, outer string) {
	file := cmp.Or(suite.Properties["file"], outer)
	for _, t := range suite.Tests {
		out.Cases = append(out.Cases, junitCase(t, suite, s, file))
	}
	for _, inner := range suite.Suites {
		junitSuite(out, inner, s, file)
	}
}

func junitCase(t junit.Test, suite junit.Suite, s Paths, file string) Case {
	var c Case
	group := t.Classname
	if group == "" || group == "test" { // names written by node's reporter
		group = suite.Name
	}
	c.Name = Name(strings.TrimPrefix(group+"."+t.Name, "."))
	c.DurationMS = max(0, t.Duration.Milliseconds())
	if f := t.Properties["file"]; f != "" {
		file = f
	}
	c.File = s.Rel(file)
	switch t.Status {
	case junit.StatusPassed:
		c.Status = contract.TestPassed
	case junit.StatusSkipped:
		c.Status = contract.TestSkipped
		c.Message = Message(t.Message)
	default:
		c.Status = contract.TestFailed
		junitFailure(&c, t, s)
	}
	return c
}

// junitFailure extracts the message and the location of a failed case.
func junitFailure(c *Case, t junit.Test, s Paths) {
	body := ""
	if t.Error != nil {
		body = Bound(t.Error.Error(), 64<<10)
	}
	text := t.Message
	if fault.FirstLine(text) == "" || text == "collection failure" {
		text = pythonReason(body)
	}
	text = cmp.Or(text, body)
	c.Message = Message(text)
	c.Frames = javaFrames(body)
	for _, p := range locations(body, s) {
		if c.File == "" || p.Path == c.File {
			c.Location = p.Location() // the last one is where the error was raised
		}
	}
	if c.Location == "" {
		line := Number(t.Properties["line"])
		if _, ok := t.Properties["line"]; ok && t.Properties["file"] != "" {
			line++ // pytest counts from 0
		}
		c.Location = Location(c.File, line)
	}
}
