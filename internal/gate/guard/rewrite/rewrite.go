// Package rewrite is the guard of what a change does to the tree, whatever its content means: which
// paths it writes, how much it writes and deletes, and which kinds of entries it makes.
//
//	Rule               Severity      Meaning                                     What to do
//	protected          major         a path matches limits.protected             let a person approve it
//	outside            major         a path does not match limits.allowed        leave it out, or allow it
//	pattern            major         a configured pattern is not valid           correct the configuration
//	unsafe-path        major         a path means something else to git, to an   rename the file
//	                                 operating system or to a reader
//	ambiguous-path     major         two paths that some file systems take for   rename one of them
//	                                 the same
//	unportable-path    minor         a name that Windows does not allow          rename the file
//	files, lines,      major         the change is over a configured limit       split it
//	deletions,
//	file-size, size
//	mass-deletion      major         a large part of the repository disappears   check that this is meant
//	unread             major         entries were too many to be examined        split the change
//	unread-file        medium        a file is too large to be examined          look at it
//	program            major         a new or changed file contains machine      build it from source
//	                                 code
//	binary             medium        a new or changed file is not text           check where it is from
//	media              minor         the same, but an image, a font, a document  check that it is wanted
//	                                 or a recording
//	executable         medium        a file becomes executable that is no        remove the permission
//	                   (minor: lost) script
//	type               medium        a file becomes a link, or the opposite      check that this is meant
//	link               minor         a symbolic link within the tree             check that it is wanted
//	link-outside       major         a link leaves the tree, or leads to .git    remove it
//	link-protected     major         a link leads to a protected file            remove it
//	link-chain         medium        a link leads to a link, to nothing known,   link to the file itself
//	                                 or to a directory that contains it
//	submodule          major         a submodule, or .gitmodules, is added or    check the repository
//	                   (medium: its  changed
//	                   commit)
//	attribute-driver   major         .gitattributes names a filter, which git    remove it
//	                   (medium: diff, runs, or a driver
//	                   merge)
//	attributes         minor         another line of .gitattributes              check it
//	generated          medium        a generated file changes, but its source    change the source
//	                                 does not
//	vendored           medium        code of others changes, but no manifest     update the dependency
//	                   (minor: with
//	                   a manifest)
//	licence            major         a licence changes or disappears             ask its owner
//	                   (minor: added, years)
//	licence-header     medium        a file loses its notice of licence or       restore it
//	                                 copyright
package rewrite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Name is the name of the guard.
const Name = "rewrite"

// Guard finds changes of paths, sizes and kinds of entries that a person should see.
var Guard change.Guard = guard{}

type guard struct{}

func (guard) Name() string { return Name }

// Judge implements change.Guard.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	j := &judge{Change: c}
	for _, look := range []func(context.Context) error{j.paths, j.collisions, j.amounts, j.deletions, j.entries} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(j.found, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return j.found, nil
}

// judge collects the findings about a change.
type judge struct {
	change.Change
	found []change.Finding
}

// add records a finding about a path; "" means the whole change.
func (j *judge) add(rule string, severity contract.Severity, path string, line int, format string, args ...any) {
	j.found = append(j.found, change.Finding{
		Guard: Name, Rule: rule, Severity: severity, Path: path, Line: line, Message: fmt.Sprintf(format, args...),
	})
}

// entries examines each entry by itself.
func (j *judge) entries(ctx context.Context) error {
	links, err := j.newLinks(ctx)
	if err != nil {
		return err
	}
	sources := j.sources()
	for _, f := range j.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		j.mode(f)
		j.content(f)
		j.submodule(f)
		j.attributes(f)
		j.licence(f)
		j.generated(f, sources)
		if f.After.Mode == change.ModeLink {
			links.check(f)
		}
	}
	j.vendored()
	return nil
}
