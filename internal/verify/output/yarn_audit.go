package output

import (
	"bytes"
	"encoding/json"
	"errors"
)

// yarnLine is one line of yarn audit --json (yarn 1) or yarn npm audit --json (later versions).
type yarnLine struct {
	// Yarn 1.
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	// Later versions.
	Package  string `json:"value"`
	Children *struct {
		ID       json.RawMessage `json:"ID"` // a number, or a text for a deprecation
		Issue    string          `json:"Issue"`
		URL      string          `json:"URL"`
		Severity string          `json:"Severity"`
		Ranges   string          `json:"Vulnerable Versions"`
	} `json:"children"`
}

// parseYarnAudit reads the output of yarn audit --json and yarn npm audit --json.
func parseYarnAudit(data []byte) (Results, error) {
	var all distinct
	first, complete := false, false // whether it is yarn 1, and whether it reached the end
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var l yarnLine
		if err := json.Unmarshal(line, &l); err != nil {
			return Results{}, err
		}
		first = first || l.Type != ""
		switch {
		case l.Type == "error":
			return Results{}, errors.New(yarnText(l.Data))
		case l.Type == "auditSummary":
			complete = true
		case l.Type == "auditAdvisory":
			var d struct {
				Advisory npmAdvisory `json:"advisory"`
			}
			if err := json.Unmarshal(l.Data, &d); err != nil {
				return Results{}, err
			}
			all.add(d.Advisory.vulnerability(), "")
		case l.Children != nil:
			all.add(l.vulnerability(), "")
		}
	}
	if first && !complete {
		return Results{}, errors.New("the audit did not finish")
	}
	return all.out, nil
}

func (l yarnLine) vulnerability() vulnerability {
	c := l.Children
	a := npmAdvisory{Name: l.Package, Title: c.Issue, URL: c.URL, Grade: c.Severity, Ranges: c.Ranges}
	_ = json.Unmarshal(c.ID, &a.ID) // a deprecation has no number
	return a.vulnerability()
}

// yarnText returns the text of an error.
func yarnText(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) != nil || title(text) == "" {
		return "the audit failed"
	}
	return title(text)
}
