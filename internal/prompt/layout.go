package prompt

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	// LayoutBytes limits the description of a repository's files in an agent's task, which is paid
	// for with each call of a conversation.
	LayoutBytes = 5 << 10
	// NearbyBytes limits the list of the files near those of a task.
	NearbyBytes = 4 << 10
	// layoutNames is how many of the files at the top are named, and layoutKinds how many kinds of
	// files of a directory.
	layoutNames, layoutKinds = 40, 3
	// layoutDepth limits the depth of directories that are listed separately.
	layoutDepth = 12
)

// folder is a directory of a repository.
type folder struct {
	name  string // "" is the top
	files int    // in it and below
	kinds map[string]int
	below map[string]*folder
}

// Layout describes the files of a repository in at most most bytes: all of them if they fit,
// otherwise its directories, with the numbers and kinds of their files. The largest directories are
// described in the most detail.
func Layout(files []string, most int) string {
	if whole, ok := wholeList(files, most); ok {
		return whole
	}
	top := &folder{below: map[string]*folder{}, kinds: map[string]int{}}
	var names []string
	for _, name := range files {
		top.add(name)
		if !strings.ContainsRune(name, '/') {
			names = append(names, name)
		}
	}
	var b strings.Builder
	for i, name := range names {
		line := ShownPath(name) + "\n"
		if i == layoutNames || b.Len()+len(line) > most/3 {
			fmt.Fprintf(&b, "… and %d more files\n", len(names)-i)
			break
		}
		b.WriteString(line)
	}
	shown := top.children()
	size := b.Len()
	for _, f := range shown {
		size += len(f.line())
	}
	// Replace the largest directories by what is in them, while there is room.
	for next := largest(shown); next != nil; next = largest(shown) {
		more := 0
		for _, f := range next.children() {
			more += len(f.line())
		}
		if size+more <= most {
			size += more
			shown = append(shown, next.children()...)
		}
		next.below = nil
	}
	slices.SortFunc(shown, func(x, y *folder) int { return cmp.Compare(x.name, y.name) })
	for i, f := range shown {
		line := f.line()
		if b.Len()+len(line) > most {
			fmt.Fprintf(&b, "… and %d more directories\n", len(shown)-i)
			break
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wholeList lists all files if they fit.
func wholeList(files []string, most int) (string, bool) {
	var b strings.Builder
	for _, name := range files {
		b.WriteString(ShownPath(name) + "\n")
		if b.Len() > most {
			return "", false
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}

// add counts a file in the directories that contain it.
func (f *folder) add(name string) {
	kind := strings.TrimPrefix(path.Ext(name), ".")
	parts := strings.Split(name, "/")
	at := f
	for i, part := range parts[:min(len(parts)-1, layoutDepth)] {
		next := at.below[part]
		if next == nil {
			next = &folder{name: strings.Join(parts[:i+1], "/"), below: map[string]*folder{}, kinds: map[string]int{}}
			at.below[part] = next
		}
		next.files++
		next.kinds[kind]++
		at = next
	}
}

func (f *folder) children() []*folder {
	var all []*folder
	for _, name := range slices.Sorted(maps.Keys(f.below)) {
		all = append(all, f.below[name])
	}
	return all
}

// line describes a directory: "internal/tool/ 44 files: 30 go, 14 md".
func (f *folder) line() string {
	kinds := slices.SortedFunc(maps.Keys(f.kinds), func(x, y string) int {
		return cmp.Or(f.kinds[y]-f.kinds[x], cmp.Compare(x, y))
	})
	var parts []string
	for _, kind := range kinds[:min(len(kinds), layoutKinds)] {
		if kind != "" {
			parts = append(parts, fmt.Sprintf("%d %s", f.kinds[kind], kind))
		}
	}
	noun := "files"
	if f.files == 1 {
		noun = "file"
	}
	text := fmt.Sprintf("%d %s", f.files, noun)
	if len(parts) > 0 {
		text += ": " + ShownPath(strings.Join(parts, ", "))
	}
	return ShownPath(f.name+"/") + " " + text + "\n"
}

// largest returns the directory with the most files that has directories in it, or nil.
func largest(all []*folder) *folder {
	var most *folder
	for _, f := range all {
		if len(f.below) > 0 && (most == nil || f.files > most.files) {
			most = f
		}
	}
	return most
}

// Nearby lists the files in the directories of the given paths, which may not exist yet, in at most
// most bytes.
func Nearby(files, paths []string, most int) string {
	var dirs []string
	for _, p := range paths {
		if dir := path.Dir(p); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	var near []string
	for _, name := range files {
		if slices.Contains(dirs, path.Dir(name)) {
			near = append(near, name)
		}
	}
	var b strings.Builder
	for i, name := range near {
		line := ShownPath(name) + "\n"
		if b.Len()+len(line) > most {
			fmt.Fprintf(&b, "… and %d more", len(near)-i)
			break
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
