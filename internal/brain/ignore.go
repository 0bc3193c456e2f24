package brain

import (
	"context"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// reasonIgnored is the reason of files that are committed although a .gitignore file names them.
const reasonIgnored extract.Reason = "ignored"

const (
	// maxIgnoreFiles, maxIgnoreSize and maxIgnorePatterns limit the .gitignore files that are read.
	maxIgnoreFiles    = 1000
	maxIgnoreSize     = 64 << 10
	maxIgnorePatterns = 2000
)

// ignored returns whether a .gitignore file of the tree names a path. Plain names and endings, which
// most patterns are, cost a look-up each, so that the time does not grow with the number of patterns.
func (w *work) ignored(ctx context.Context, all []workspace.TreeFile) (func(path string) bool, error) {
	var ids, dirs []string
	for _, f := range all {
		if ignoreFile(f.Path) && len(ids) < maxIgnoreFiles {
			ids, dirs = append(ids, f.Blob), append(dirs, path.Dir(f.Path))
		}
	}
	rules := ignoreRules{}
	if len(ids) > 0 {
		err := w.options.Workspaces.ReadBlobs(ctx, w.ws, ids, maxIgnoreSize, func(i int, text []byte) error {
			rules.add(dirs[i], string(text))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rules.match, nil
}

// ignoreRules are the patterns of each directory.
type ignoreRules map[string]*ignoreRule

// ignoreRule has the patterns of one .gitignore file, numbered by their lines: of those that match, the
// last one decides.
type ignoreRule struct {
	names   map[string]ignorePattern // a name anywhere below
	endings map[string]ignorePattern // *.ext anywhere below
	others  []ignorePattern
}

type ignorePattern struct {
	line     int
	text     string
	keep     bool // ! : not ignored after all
	dir      bool // only directories
	anchored bool // relative to the file's directory
}

func (rules ignoreRules) add(dir, content string) {
	r := &ignoreRule{names: map[string]ignorePattern{}, endings: map[string]ignorePattern{}}
	n := 0
	for line := range strings.SplitSeq(content, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		if n++; n > maxIgnorePatterns {
			break
		}
		p := ignorePattern{line: n, text: line}
		p.text, p.keep = strings.CutPrefix(p.text, "!")
		p.text = strings.TrimPrefix(p.text, `\`)
		p.text, p.dir = strings.CutSuffix(p.text, "/")
		p.text = strings.TrimPrefix(strings.TrimPrefix(p.text, "**/"), "./")
		p.anchored = strings.Contains(p.text, "/") && !strings.HasPrefix(line, "**/")
		p.text = strings.TrimPrefix(p.text, "/")
		ext, ending := strings.CutPrefix(p.text, "*.")
		switch {
		case p.text == "":
		case !p.anchored && !strings.ContainsAny(p.text, "*?[\\/"):
			r.names[p.key()] = p
		case ending && !p.anchored && !strings.ContainsAny(ext, "*?[\\/."):
			r.endings[p.keyOf(ext)] = p
		default:
			r.others = append(r.others, p)
		}
	}
	rules[dir] = r
}

// key distinguishes patterns for directories, so that both can be found.
func (p ignorePattern) key() string { return p.keyOf(p.text) }

func (p ignorePattern) keyOf(text string) string {
	if p.dir {
		return text + "/"
	}
	return text
}

// match says whether a file is ignored: itself or a directory that contains it.
func (rules ignoreRules) match(name string) bool {
	if len(rules) == 0 {
		return false
	}
	for end := 0; end < len(name); {
		next := strings.IndexByte(name[end:], '/')
		part := name
		if next >= 0 {
			part = name[:end+next]
		}
		if rules.one(part, next >= 0) {
			return true
		}
		if next < 0 {
			return false
		}
		end += next + 1
	}
	return false
}

// one says whether the files of the directories above ignore a file or directory. Those that are nearer
// decide first.
func (rules ignoreRules) one(name string, isDir bool) bool {
	base := path.Base(name)
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if r := rules[dir]; r != nil {
			if p := r.find(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), base, isDir); p.line > 0 {
				return !p.keep
			}
		}
		if dir == "." || dir == "/" {
			return false
		}
	}
}

func (r *ignoreRule) find(rel, base string, isDir bool) (found ignorePattern) {
	take := func(p ignorePattern) {
		if p.line > found.line {
			found = p
		}
	}
	take(r.names[base])
	ext := strings.TrimPrefix(path.Ext(base), ".")
	if ext != "" {
		take(r.endings[ext])
	}
	if isDir {
		take(r.names[base+"/"])
		if ext != "" {
			take(r.endings[ext+"/"])
		}
	}
	for _, p := range r.others {
		if p.line < found.line || p.dir && !isDir {
			continue
		}
		subject := base
		if p.anchored {
			subject = rel
		}
		if ignoreMatch(p.text, subject) {
			take(p)
		}
	}
	return found
}

// ignoreMatch matches a pattern in which ** stands for any number of directories only at its start or
// end, which covers nearly all; other patterns with ** match nothing.
func ignoreMatch(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/**"); ok {
		rest, inside := strings.CutPrefix(name, prefix+"/")
		return inside && rest != ""
	}
	matched, err := path.Match(pattern, name)
	return err == nil && matched
}
