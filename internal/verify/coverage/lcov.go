package coverage

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// readLCOV reads the lines of lcov's tracefile format; see geninfo(1).
func (p *Profile) readLCOV(data []byte, s output.Paths) error {
	file, begun := "", false
	for line := range bytes.Lines(data) {
		key, value, _ := strings.Cut(string(bytes.TrimSpace(line)), ":")
		switch key {
		case "SF":
			file, begun = p.find(value, s), true
		case "end_of_record":
			file = ""
		case "DA": // line, count, optional checksum
			number, rest, ok := strings.Cut(value, ",")
			count, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(number)
			if !ok || err != nil {
				return errors.New("a line of data has no line number")
			}
			hits, err := strconv.ParseFloat(count, 64) // counts may exceed an integer
			if err != nil {
				return errors.New("a line of data has no count")
			}
			if err := p.mark(file, n, n, hits > 0); err != nil {
				return err
			}
		}
	}
	if !begun {
		return errors.New("it names no source file")
	}
	return nil
}
