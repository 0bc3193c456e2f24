// Package coverage reads reports on which lines tests executed, in the formats of common tools, and
// counts the lines of a change among them.
//
// Reports are written by the code under test, so they are hostile: they are read with limits, they
// can only name files of the checkout, and only lines that these files have. They may lie about the
// rest, so coverage decides nothing.
package coverage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Limits on reports.
const (
	MaxReportBytes = 32 << 20
	maxFiles       = 20_000
	maxLine        = 100_000    // greatest number of a line
	maxMarks       = 20_000_000 // lines named by all reports together, with repetitions
)

// errTooMuch is the reason why the rest of a report is not read.
var errTooMuch = fmt.Errorf("it has more than %d files or %d lines", maxFiles, maxMarks)

// Profile contains the lines of files that tests executed, and those that they could have executed.
type Profile struct {
	root  *os.Root
	files map[string]*lines // by path relative to the checkout
	paths map[string]string // as reports name them → relative to the checkout; "" where it lacks the file
	index *index            // of the checkout; nil until a report needs it
	marks int
}

// lines are sets of lines of a file.
type lines struct{ executable, executed set }

// New returns an empty profile of the checkout in root, which must stay open until Finish.
func New(root *os.Root) *Profile {
	return &Profile{root: root, files: map[string]*lines{}, paths: map[string]string{}}
}

// Read adds a report in any of the known formats, written by a command that ran in s. A line counts
// as executed if any report says so. If it returns an error, a part of the report may have been
// added.
func (p *Profile) Read(data []byte, s output.Paths) error {
	head := bytes.TrimLeft(bytes.TrimPrefix(data[:min(len(data), 4<<10)], []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(data) > MaxReportBytes:
		return output.ErrTooLarge
	case bytes.HasPrefix(head, []byte("mode: ")):
		return p.readGo(data, s)
	case bytes.HasPrefix(head, []byte("TN:")), bytes.HasPrefix(head, []byte("SF:")):
		return p.readLCOV(data, s)
	case bytes.HasPrefix(head, []byte("<")) && bytes.Contains(head, []byte("<coverage")):
		return p.readCobertura(data, s)
	case bytes.HasPrefix(head, []byte("<")) && bytes.Contains(head, []byte("<report")):
		return p.readJaCoCo(data, s)
	}
	return errors.New("its format is unknown; lcov, Cobertura, JaCoCo and Go profiles can be read")
}

// mark records lines of a file, including the last.
func (p *Profile) mark(file string, first, last int, executed bool) error {
	first, last = max(first, 1), min(last, maxLine)
	if file == "" || first > last {
		return nil
	}
	if p.marks += last - first + 1; p.marks > maxMarks {
		return errTooMuch
	}
	f := p.files[file]
	if f == nil {
		if len(p.files) >= maxFiles {
			return errTooMuch
		}
		f = &lines{}
		p.files[file] = f
	}
	for n := first; n <= last; n++ {
		f.executable.add(n)
		if executed {
			f.executed.add(n)
		}
	}
	return nil
}

// find returns the file that a report names, "" if the checkout has no such file.
func (p *Profile) find(name string, s output.Paths) string {
	return p.remember(s.Dir+"\x00"+name, func() string {
		for _, at := range []output.Paths{s, {Root: s.Root}} {
			if f := at.Rel(name); f != "" && p.isFile(f) {
				return f
			}
		}
		return ""
	})
}

// remember returns the file for a key and searches for it only once. Keys beyond a limit have no
// file.
func (p *Profile) remember(key string, search func() string) string {
	found, ok := p.paths[key]
	if !ok && len(p.paths) <= 2*maxFiles {
		found = search()
		p.paths[key] = found
	}
	return found
}

func (p *Profile) isFile(name string) bool {
	info, err := p.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// Finish removes what is not code of the checkout: files that ignored accepts, such as tests, installed
// packages, and lines that the files do not have or that contain nothing to execute.
func (p *Profile) Finish(ignored func(path string) bool) {
	left := int64(maxSources)
	for name, f := range p.files {
		code, ok := set(nil), false
		if !ignored(name) && !installed(name) {
			code, ok = codeLines(p.root, name, &left)
		}
		if !ok {
			delete(p.files, name)
			continue
		}
		f.executable.keep(code)
		f.executed.keep(code)
	}
	p.root, p.paths, p.index = nil, nil, nil
}

// installed reports whether a file belongs to a package that the checkout uses.
func installed(name string) bool {
	for _, dir := range []string{"node_modules/", "site-packages/", "vendor/", ".venv/", "venv/", ".rgpt-verify/"} {
		if strings.Contains("/"+name, "/"+dir) {
			return true
		}
	}
	return false
}

// Empty reports whether no file was measured.
func (p *Profile) Empty() bool { return len(p.files) == 0 }

// Total counts the lines of all files.
func (p *Profile) Total() contract.LineCount {
	var sum contract.LineCount
	for _, f := range p.files {
		sum = sum.Add(contract.LineCount{Lines: f.executable.count(), Covered: f.executed.count()})
	}
	return sum
}

// packages returns the directories of JVM packages that were measured. JaCoCo lists only files with
// executable lines, so the other files in them count as measured.
func (p *Profile) packages() map[string]bool {
	out := map[string]bool{}
	for name := range p.files {
		if jvmSource[path.Ext(name)] {
			out[path.Dir(name)] = true
		}
	}
	return out
}

// Changed returns the coverage of the lines that a change added or edited, by file. Only source
// code counts. Lines of files that were not measured are unknown; root is the checkout. The lists
// are bounded, the counts are complete.
func (p *Profile) Changed(root *os.Root, added map[string][]contract.LineRange, ignored func(path string) bool) *contract.ChangedLines {
	out := &contract.ChangedLines{}
	left, ranges, packages := int64(maxSources), contract.MaxCoverageRanges, p.packages()
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if !isSource(name) || ignored(name) || installed(name) {
			continue
		}
		f := contract.FileCoverage{Path: name}
		if p.files[name] != nil || jvmSource[path.Ext(name)] && packages[path.Dir(name)] {
			f = p.changed(name, added[name])
		} else if code, ok := codeLines(root, name, &left); ok {
			f.Unknown = len(within(code, added[name]))
		}
		if f.Lines+f.Unknown == 0 {
			continue
		}
		out.LineCount = out.Add(f.LineCount)
		out.Unknown += f.Unknown
		if len(out.Files) >= contract.MaxCoverageFiles {
			out.Omitted++
			continue
		}
		bound(&f, &ranges)
		out.Files = append(out.Files, f)
	}
	return out
}

func (p *Profile) changed(name string, added []contract.LineRange) contract.FileCoverage {
	out := contract.FileCoverage{Path: name}
	f := p.files[name]
	if f == nil {
		return out
	}
	var executed, missed []int
	for _, n := range within(f.executable, added) {
		if f.executed.has(n) {
			executed = append(executed, n)
		} else {
			missed = append(missed, n)
		}
	}
	out.Executed, out.Missed = contract.Ranges(executed), contract.Ranges(missed)
	out.LineCount = contract.LineCount{Lines: len(executed) + len(missed), Covered: len(executed)}
	return out
}

// bound cuts the ranges of a file to the number that is left. Missed lines have priority.
func bound(f *contract.FileCoverage, left *int) {
	for _, list := range []*[]contract.LineRange{&f.Missed, &f.Executed} {
		kept := min(len(*list), *left)
		f.Omitted += len(*list) - kept
		*list = (*list)[:kept]
		*left -= kept
	}
}

// within returns the lines of a set that are in ranges, in order.
func within(s set, ranges []contract.LineRange) []int {
	var out []int
	for _, r := range ranges {
		for n := max(1, r.First); n <= min(r.Last, maxLine); n++ {
			if s.has(n) {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// set is a set of small numbers.
type set []uint64

func (s *set) add(n int) {
	for len(*s) <= n/64 {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s set) has(n int) bool { return n >= 0 && n/64 < len(s) && s[n/64]&(1<<(n%64)) != 0 }

// keep removes the numbers that are not in other.
func (s *set) keep(other set) {
	*s = (*s)[:min(len(*s), len(other))]
	for i := range *s {
		(*s)[i] &= other[i]
	}
}

func (s set) count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}
