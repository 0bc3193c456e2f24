// Package dockerfile decides whether a repository's Dockerfile may be built, and prepares its build:
// the images that it starts from, its instructions in a form that the engine cannot read differently,
// and the files of its context. It executes nothing and does not use the network.
//
// A Dockerfile is hostile. Its RUN instructions are executed by the engine, and some of its other
// instructions make the engine itself fetch images and files. So each instruction that could name an
// image or a URL is resolved here, and what cannot be resolved is refused.
package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

const (
	// MaxBytes is the maximum size of a Dockerfile.
	MaxBytes = 256 << 10
	// maxInstructions is the maximum number of its instructions.
	maxInstructions = 1000
	// shownBytes limits the parts of a Dockerfile that errors show.
	shownBytes = 120
)

// Scratch is the name of the empty image, which exists in every engine.
const Scratch = "scratch"

// LabelBuilding is the label of what builds create. Its value is Building until a build has succeeded.
const (
	LabelBuilding = "dev.rocketgpt.build"
	Building      = "building"
	Built         = "built"
)

// Refused is the error for a Dockerfile that is not built.
type Refused struct {
	Line   int // 0: the whole file
	Reason string
}

func (r *Refused) Error() string {
	if r.Line == 0 {
		return r.Reason
	}
	return fmt.Sprintf("line %d: %s", r.Line, r.Reason)
}

// File is a Dockerfile that may be built, once the caller has checked its images.
type File struct {
	// Images are the images that the build uses, sorted.
	Images []string

	lines []line
	args  map[string]string
}

// line is an instruction.
type line struct {
	text  string // with image, if there is one, in the place of a verb %s
	image string
	from  bool
}

// Parse reads a Dockerfile. target is the name or number of the stage to build, "" for the last; args
// are the values of build arguments.
func Parse(data []byte, target string, args map[string]string) (*File, error) {
	if len(data) > MaxBytes {
		return nil, &Refused{Reason: fmt.Sprintf("it is larger than %d bytes", MaxBytes)}
	}
	if syntax, _, at, ok := parser.DetectSyntax(data); ok {
		return nil, &Refused{Line: firstLine(at), Reason: fmt.Sprintf("the directive syntax=%s names a program that would interpret the file; remove it and use only instructions of the engine's own builder", shown(syntax))}
	}
	parsed, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		var at *parser.LocationError
		out := &Refused{Reason: "it cannot be parsed: " + shown(err.Error())}
		if errors.As(err, &at) && len(at.Locations) > 0 {
			out.Line = firstLine(at.Locations[0])
		}
		return nil, out
	}
	if len(parsed.AST.Children) > maxInstructions {
		return nil, &Refused{Reason: fmt.Sprintf("it has more than %d instructions", maxInstructions)}
	}
	r := &reader{
		lex: shell.NewLex(parsed.EscapeToken), escape: parsed.EscapeToken, given: args, global: map[string]string{}, target: strings.ToLower(target), file: &File{args: args},
	}
	if parsed.EscapeToken != parser.DefaultEscapeToken {
		r.file.lines = append(r.file.lines, line{text: "# escape=" + string(parsed.EscapeToken)})
	}
	return r.read(parsed.AST.Children)
}

func firstLine(at []parser.Range) int {
	if len(at) == 0 {
		return 0
	}
	return at[0].Start.Line
}

// shown returns a text of the file for an error.
func shown(s string) string {
	if len(s) > shownBytes {
		s = strings.ToValidUTF8(s[:shownBytes], "") + "…"
	}
	return strconv.Quote(s)
}

// Render returns the instructions, one a line, with the ids of the images, and with a label for what
// each stage creates.
func (f *File) Render(ids map[string]string) []byte {
	var out bytes.Buffer
	for _, l := range f.lines {
		text := l.text
		if l.image != "" {
			id := ids[l.image]
			if l.image == Scratch {
				id = Scratch
			}
			text = strings.Replace(text, "%s", id, 1)
		}
		out.WriteString(text + "\n")
		if l.from {
			fmt.Fprintf(&out, "LABEL %s=%s\n", LabelBuilding, Building)
		}
	}
	return out.Bytes()
}

// reader reads the instructions of a file.
type reader struct {
	lex    *shell.Lex
	escape rune
	given  map[string]string
	global map[string]string // arguments before the first stage
	target string
	stages []string
	done   bool // the target's stage is complete
	file   *File
}

func (r *reader) read(nodes []*parser.Node) (*File, error) {
	for _, n := range nodes {
		if err := r.check(n); err != nil {
			return nil, &Refused{Line: n.StartLine, Reason: err.Error()}
		}
		if r.done {
			break
		}
	}
	switch {
	case len(r.stages) == 0:
		return nil, &Refused{Reason: "it has no FROM instruction"}
	case r.target != "" && r.stage(r.target) < 0:
		return nil, &Refused{Reason: "it has no stage " + shown(r.target)}
	}
	slices.Sort(r.file.Images)
	r.file.Images = slices.Compact(r.file.Images)
	return r.file, nil
}

// check adds an instruction to the file. The error says why it is refused.
func (r *reader) check(n *parser.Node) error {
	text := strings.TrimSpace(n.Original)
	switch {
	case len(n.Heredocs) > 0:
		return errors.New("here-documents need BuildKit, which is not used")
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' }):
		return errors.New("the instruction contains control characters")
	case strings.HasSuffix(text, string(r.escape)):
		return errors.New("the instruction ends with an escape character")
	}
	name := strings.ToLower(n.Value)
	if len(r.stages) == 0 && name != "from" && name != "arg" {
		return fmt.Errorf("%s before the first FROM", shown(n.Value))
	}
	switch name {
	case "from":
		return r.from(n)
	case "arg":
		return r.arg(n, text)
	case "copy":
		return r.copy(n, text)
	case "add":
		return r.add(n, text)
	case "run":
		if len(n.Flags) > 0 {
			return fmt.Errorf("RUN %s needs BuildKit, which is not used", shown(n.Flags[0]))
		}
	case "volume", "healthcheck", "expose":
		return nil // no meaning here; and a volume's size would be unlimited
	case "label":
		if strings.Contains(strings.ToLower(text), "dev.rocketgpt.") {
			return errors.New("labels that begin with dev.rocketgpt. are reserved")
		}
	case "cmd", "entrypoint", "env", "maintainer", "shell", "stopsignal", "user", "workdir":
	case "onbuild":
		return errors.New("ONBUILD is not supported")
	default:
		return fmt.Errorf("unknown instruction %s", shown(n.Value))
	}
	r.file.lines = append(r.file.lines, line{text: text})
	return nil
}

// words returns the arguments of an instruction.
func words(n *parser.Node) (out []string) {
	for next := n.Next; next != nil; next = next.Next {
		out = append(out, next.Value)
	}
	return out
}

// arg remembers the arguments before the first stage, which FROM may use.
func (r *reader) arg(n *parser.Node, text string) error {
	r.file.lines = append(r.file.lines, line{text: text})
	if len(r.stages) > 0 {
		return nil
	}
	for _, w := range words(n) {
		name, value, has := strings.Cut(w, "=")
		if given, ok := r.given[name]; ok {
			r.global[name] = given
			continue
		}
		if !has {
			continue
		}
		expanded, err := r.expand(value)
		if err != nil {
			continue // an error only where it is used
		}
		r.global[name] = expanded
	}
	return nil
}

// expand replaces the arguments in a word. An argument without a value is an error.
func (r *reader) expand(word string) (string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(r.global)) {
		env = append(env, name+"="+r.global[name])
	}
	result, err := r.lex.ProcessWordWithMatches(word, shell.EnvsFromSlice(env))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s cannot be resolved: %s", shown(word), shown(err.Error()))
	case len(result.Unmatched) > 0:
		return "", fmt.Errorf("%s cannot be resolved: %s has no value; give ARG a default before the first FROM, or a build argument", shown(word), shown(slices.Sorted(maps.Keys(result.Unmatched))[0]))
	}
	return result.Result, nil
}

var (
	imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,499}$`)
	stageName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,99}$`)
)

// stage returns the number of a stage by name or number, -1 if there is none.
func (r *reader) stage(name string) int {
	if i := slices.Index(r.stages, strings.ToLower(name)); i >= 0 {
		return i
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(r.stages) {
		return i
	}
	return -1
}

// from begins a stage.
func (r *reader) from(n *parser.Node) error {
	if r.target != "" && r.stage(r.target) >= 0 {
		r.done = true // the stages that follow are not built
		return nil
	}
	for _, flag := range n.Flags {
		platform, ok := strings.CutPrefix(flag, "--platform=")
		if own := "linux/" + runtime.GOARCH; !ok || platform != own && !slices.Contains([]string{"$BUILDPLATFORM", "${BUILDPLATFORM}", "$TARGETPLATFORM", "${TARGETPLATFORM}"}, platform) {
			return fmt.Errorf("FROM %s is not supported; images are built for %s", shown(flag), own)
		}
	}
	w := words(n)
	if len(w) != 1 && (len(w) != 3 || !strings.EqualFold(w[1], "as")) {
		return errors.New("expected FROM image [AS name]")
	}
	image, err := r.expand(w[0])
	if err != nil {
		return err
	}
	name, as := "", ""
	if len(w) == 3 {
		name = strings.ToLower(w[2])
		if !stageName.MatchString(name) || name == Scratch {
			return fmt.Errorf("%s is not the name of a stage", shown(w[2]))
		}
		as = " AS " + name
	}
	l := line{text: "FROM %s" + as, image: image, from: true}
	if i := slices.Index(r.stages, strings.ToLower(image)); i >= 0 && image != "" {
		l = line{text: "FROM " + r.stages[i] + as, from: true}
	} else if err := r.use(image); err != nil {
		return err
	}
	r.stages = append(r.stages, name)
	r.file.lines = append(r.file.lines, l)
	return nil
}

// use adds an image to those of the build.
func (r *reader) use(image string) error {
	if !imageName.MatchString(image) {
		return fmt.Errorf("%s is not the name of an image", shown(image))
	}
	if image != Scratch {
		r.file.Images = append(r.file.Images, image)
	}
	return nil
}

// flags checks the flags of COPY and ADD, and returns the value of --from.
func flags(n *parser.Node) (from string, err error) {
	seen := map[string]bool{}
	for _, flag := range n.Flags {
		name, value, _ := strings.Cut(flag, "=")
		switch {
		case name != "--from" && name != "--chown":
			return "", fmt.Errorf("%s %s needs BuildKit, which is not used", strings.ToUpper(n.Value), shown(flag))
		case seen[name]:
			return "", fmt.Errorf("%s occurs twice", name)
		case name == "--from":
			from = value
		}
		seen[name] = true
	}
	if seen["--from"] && from == "" {
		return "", errors.New("--from has no value")
	}
	return from, nil
}

// copy checks from where files are copied.
func (r *reader) copy(n *parser.Node, text string) error {
	from, err := flags(n)
	if err != nil {
		return err
	}
	l := line{text: text}
	if from != "" && r.earlier(from) < 0 {
		if !imageName.MatchString(from) {
			return fmt.Errorf("COPY --from=%s cannot be resolved", shown(from))
		}
		if strings.Contains(text, "%s") || strings.Count(text, "--from="+from) != 1 || !strings.Contains(text, "--from="+from+" ") {
			return fmt.Errorf("COPY --from=%s cannot be resolved", shown(from))
		}
		if err := r.use(from); err != nil {
			return err
		}
		l = line{text: strings.Replace(text, "--from="+from, "--from=%s", 1), image: from}
	}
	r.file.lines = append(r.file.lines, l)
	return nil
}

// earlier returns the number of a stage before the current one, -1 if there is none.
func (r *reader) earlier(name string) int {
	if i := r.stage(name); i < len(r.stages)-1 {
		return i
	}
	return -1
}

// localSource matches the sources of ADD that cannot be URLs, whatever a shell makes of them.
var localSource = regexp.MustCompile(`^[A-Za-z0-9_./*?@+,=~ -]+$`)

// add checks that files are added from the context only: the engine itself would fetch a URL.
func (r *reader) add(n *parser.Node, text string) error {
	from, err := flags(n)
	if err != nil {
		return err
	}
	if from != "" {
		return errors.New("ADD has no --from")
	}
	w := words(n)
	for _, source := range w[:max(0, len(w)-1)] {
		if !localSource.MatchString(source) || strings.HasPrefix(source, "git@") {
			return fmt.Errorf("ADD may add only files of the context without variables, not %s; use COPY, or RUN with a download", shown(source))
		}
	}
	r.file.lines = append(r.file.lines, line{text: text})
	return nil
}
