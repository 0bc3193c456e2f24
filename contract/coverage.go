package contract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits on what a check reports about changed lines. Counts stay complete.
const (
	MaxCoverageFiles  = 50  // changed files
	MaxCoverageRanges = 300 // ranges of lines, in all files together
)

// Coverage reports which lines the tests of a check executed. It is informative: it never makes a
// check fail.
type Coverage struct {
	// LineCount counts the lines of all files that were measured, apart from tests.
	LineCount
	// Base is the same count on the base commit; nil if it is unknown.
	Base *LineCount `json:"base,omitempty"`
	// Changed counts the lines that the change adds or edits; nil if it adds none, or if they are unknown.
	Changed *ChangedLines `json:"changed,omitempty"`
	// Note is the reason why the coverage is unknown or incomplete.
	Note string `json:"note,omitempty"`
}

// LineCount counts executable lines, and those that tests executed.
type LineCount struct {
	Lines   int `json:"lines"`
	Covered int `json:"covered"`
}

// ChangedLines counts the executable lines that a change adds or edits, apart from tests.
type ChangedLines struct {
	LineCount
	// Unknown is the number of changed lines in files that were not measured.
	Unknown int `json:"unknown,omitempty"`
	// Files are the changed files; Omitted is the number of further ones.
	Files   []FileCoverage `json:"files,omitempty"`
	Omitted int            `json:"omitted_files,omitempty"`
}

// FileCoverage reports which changed lines of a file the tests executed.
type FileCoverage struct {
	Path string `json:"path"`
	LineCount
	// Unknown is the number of changed lines if the file was not measured.
	Unknown int `json:"unknown,omitempty"`
	// Executed and Missed are the changed executable lines that tests executed, and the others.
	// Executed is empty in the coverage of several checks.
	Executed []LineRange `json:"executed,omitempty"`
	Missed   []LineRange `json:"missed,omitempty"`
	// Omitted is the number of ranges that are not listed.
	Omitted int `json:"omitted_ranges,omitempty"`
}

// LineRange is a range of lines, including the last.
type LineRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// String formats the range as 12 or 12-15.
func (r LineRange) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Add returns the sum of two counts.
func (c LineCount) Add(d LineCount) LineCount {
	return LineCount{Lines: c.Lines + d.Lines, Covered: c.Covered + d.Covered}
}

// Percent formats the covered share, rounded down, so 100 % means all lines.
func (c LineCount) Percent() string {
	if c.Lines == 0 {
		return "–"
	}
	tenths := c.Covered * 1000 / c.Lines
	if tenths%10 == 0 {
		return fmt.Sprintf("%d %%", tenths/10)
	}
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// Summary describes the coverage in one line: "Coverage of the changed lines: 87 % (41 of 47); was
// 80 % overall, is 81 %".
func (c Coverage) Summary() string {
	text := "Coverage"
	if ch := c.Changed; ch != nil {
		switch {
		case ch.Lines > 0:
			text += fmt.Sprintf(" of the changed lines: %s (%d of %d)", ch.Percent(), ch.Covered, ch.Lines)
		case ch.Unknown > 0:
			text += fmt.Sprintf(" of the changed lines: unknown (%d lines in files that were not measured)", ch.Unknown)
		default:
			text += ": no executable line was changed"
		}
		if ch.Lines > 0 && ch.Unknown > 0 {
			text += fmt.Sprintf(", and %d in files that were not measured", ch.Unknown)
		}
	}
	overall := ""
	switch {
	case c.Lines == 0:
	case c.Base != nil && c.Base.Lines > 0:
		overall = fmt.Sprintf("was %s overall, is %s", c.Base.Percent(), c.Percent())
	default:
		overall = fmt.Sprintf("%s overall (%d of %d lines)", c.Percent(), c.Covered, c.Lines)
	}
	switch {
	case overall != "" && c.Changed != nil:
		text += "; " + overall
	case overall != "":
		text += ": " + overall
	case c.Changed == nil:
		text += ": unknown"
	}
	return text
}

// Missed returns the changed files with lines that are not covered or not measured.
func (c Coverage) Missed() []FileCoverage {
	if c.Changed == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Changed.Files), func(f FileCoverage) bool { return f.Covered == f.Lines && f.Unknown == 0 })
}

// MissedText lists the changed lines of a file that are not covered, such as "lines 3, 7-9", or says
// that it was not measured. Of a long list, it contains the beginning.
func (f FileCoverage) MissedText() string {
	if f.Unknown > 0 {
		return "not measured"
	}
	const most = 20
	var parts []string
	for _, r := range f.Missed[:min(len(f.Missed), most)] {
		parts = append(parts, r.String())
	}
	switch more := len(f.Missed) - most; {
	case len(parts) == 0:
		return fmt.Sprintf("%d lines", f.Lines-f.Covered)
	case more > 0 || f.Omitted > 0:
		parts = append(parts, "…")
	}
	if len(parts) == 1 && f.Missed[0].First == f.Missed[0].Last {
		return "line " + parts[0]
	}
	return "lines " + strings.Join(parts, ", ")
}

// MergeCoverage returns the coverage of several checks together, nil if none of them measured any.
// A changed line is covered if the tests of any check executed it. The files that different checks
// measure overall are distinct, except for the shards of one check; then the overall counts are
// unknown and zero.
func MergeCoverage(checks []CheckResult) *Coverage {
	var out *Coverage
	files := map[string][]FileCoverage{}
	sharded, based, omitted := false, true, 0
	for _, r := range checks {
		c := r.Coverage
		if c == nil || r.Check.Retest > 0 {
			continue
		}
		if out == nil {
			out = &Coverage{Base: &LineCount{}}
		}
		sharded = sharded || r.Check.Shards > 1
		out.LineCount = out.Add(c.LineCount)
		if c.Base != nil {
			*out.Base = out.Base.Add(*c.Base)
		} else if c.Lines > 0 {
			based = false
		}
		out.Note = cmp.Or(out.Note, c.Note)
		if c.Changed == nil {
			continue
		}
		if out.Changed == nil {
			out.Changed = &ChangedLines{}
		}
		omitted = max(omitted, c.Changed.Omitted)
		for _, f := range c.Changed.Files {
			files[f.Path] = append(files[f.Path], f)
		}
	}
	if out == nil {
		return nil
	}
	if !based || sharded {
		out.Base = nil
	}
	if sharded {
		out.LineCount = LineCount{}
	}
	if out.Changed != nil {
		out.Changed.merge(files, omitted, checks)
	}
	return out
}

// merge fills in the changed lines of several checks.
func (c *ChangedLines) merge(files map[string][]FileCoverage, omitted int, checks []CheckResult) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := mergeFile(files[path])
		c.LineCount = c.Add(f.LineCount)
		c.Unknown += f.Unknown
		c.Files = append(c.Files, f)
	}
	c.Omitted = omitted
	if omitted == 0 {
		return
	}
	// The counts of omitted files are known only in total, and are the same files for each check.
	var rest ChangedLines
	for _, r := range checks {
		if r.Coverage == nil || r.Coverage.Changed == nil || r.Check.Retest > 0 {
			continue
		}
		left := *r.Coverage.Changed
		for _, f := range left.Files {
			left.Lines, left.Covered, left.Unknown = left.Lines-f.Lines, left.Covered-f.Covered, left.Unknown-f.Unknown
		}
		// Each shard executes some of the lines, so the greatest count is the nearest.
		if left.Lines > rest.Lines || left.Lines == rest.Lines && left.Covered > rest.Covered || rest.Lines == 0 && left.Unknown > rest.Unknown {
			rest = left
		}
	}
	c.LineCount, c.Unknown = c.Add(rest.LineCount), c.Unknown+rest.Unknown
}

// mergeFile returns the coverage of a file by several checks. Files that a check did not measure
// are unknown only if no other check measured them.
func mergeFile(all []FileCoverage) FileCoverage {
	measured := slices.DeleteFunc(slices.Clone(all), func(f FileCoverage) bool { return f.Lines == 0 && f.Unknown > 0 })
	if len(measured) == 0 {
		return all[0]
	}
	out := measured[0]
	if len(measured) > 1 {
		out = mergeMeasured(measured)
	}
	out.Executed = nil
	return out
}

// mergeMeasured returns the coverage of a file that several checks measured. Where their lists of
// ranges are cut, it lists only lines that certainly no check executed, and the count of covered
// lines may be too low.
func mergeMeasured(all []FileCoverage) FileCoverage {
	out := FileCoverage{Path: all[0].Path}
	executed, missed := map[int]bool{}, map[int]int{}
	cut, allMissed := 0, true
	for _, f := range all {
		out.Omitted = max(out.Omitted, f.Omitted)
		out.Lines, out.Covered = max(out.Lines, f.Lines), max(out.Covered, f.Covered)
		if f.Omitted > 0 {
			cut++
		}
		eachLine(f.Executed, func(n int) { executed[n] = true })
		listed := 0
		eachLine(f.Missed, func(n int) { missed[n]++; listed++ })
		allMissed = allMissed && listed == f.Lines-f.Covered
	}
	executable := maps.Clone(executed)
	var certain []int
	for _, n := range slices.Sorted(maps.Keys(missed)) {
		executable[n] = true
		if !executed[n] && (cut == 0 || missed[n] == len(all)) {
			certain = append(certain, n)
		}
	}
	out.Missed = Ranges(certain)
	switch {
	case cut == 0:
		out.LineCount = LineCount{Lines: len(executable), Covered: len(executed)}
	case allMissed: // only executed lines are not listed
		out.Omitted, out.Covered = 0, out.Lines-len(certain)
	default:
		out.Covered = max(out.Covered, len(executed))
	}
	return out
}

// maxMergedLines bounds the work on ranges, which may be read from a history.
const maxMergedLines = 1_000_000

func eachLine(ranges []LineRange, do func(n int)) {
	for _, r := range ranges {
		for n := max(0, r.First); n <= r.Last && n <= maxMergedLines; n++ {
			do(n)
		}
	}
}

// Ranges groups ascending numbers of lines.
func Ranges(lines []int) []LineRange {
	var out []LineRange
	for _, n := range lines {
		if last := len(out) - 1; last >= 0 && out[last].Last == n-1 {
			out[last].Last = n
			continue
		}
		out = append(out, LineRange{First: n, Last: n})
	}
	return out
}
