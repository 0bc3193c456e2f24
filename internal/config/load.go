package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// FileName is the name of a project's configuration.
const FileName = "rgpt.yaml"

// LocalName is the name of the file next to it for settings that should not be committed.
const LocalName = "rgpt.local.yaml"

// Sources specify where settings come from. The zero value reads the base file and the environment.
type Sources struct {
	// Base is the base file. Empty means RGPT_CONFIG_BASE, or rgpt/rgpt.yaml below
	// XDG_CONFIG_HOME or ~/.config if it exists.
	Base string
	// Project is the project's file, as given by --config; it must exist. Empty means
	// rgpt.yaml in Dir if it exists.
	Project string
	// Dir is the project's directory. If it and Project are empty, there is no project.
	Dir string
	// Trusts reports whether the operator trusts a file of Dir with this content. An untrusted file
	// has the rights of a repository's file (see LoadRepository), because anybody may have put it
	// there. If nil, all files of Dir are trusted.
	Trusts func(file string, content []byte) bool
	// LeftOut is called with the files of Dir that are not trusted, which are then left out. If
	// nil, they are read with the rights of a repository's file.
	LeftOut func(file string)
	// Env is the environment in the form of os.Environ. Nil means that of this process;
	// empty but not nil means none.
	Env []string
	// Flags are settings by dotted key: execution.max_retries → 5.
	Flags map[string]string
}

// Load reads all layers, merges and validates them. Its error is an *Error that lists all mistakes,
// a CONFIG_ERROR with code invalid_config.
func Load(from Sources) (*Config, error) {
	if from.Env == nil {
		from.Env = os.Environ()
	}
	l := newLoader(Default())
	l.files(from)
	l.environment(from.Env)
	l.flags(from.Flags)
	return l.finish()
}

// loader merges layers.
type loader struct {
	report  report
	origins map[string]Origin
	merged  *koanf.Koanf
	// repository is set if the file that is read is a repository's.
	repository bool
}

// delimiter separates keys only inside koanf. Names of headers may contain dots; this
// character cannot occur in a name.
const delimiter = "\x00"

func newLoader(base *Config) *loader {
	l := &loader{origins: maps.Clone(base.origins), merged: koanf.New(delimiter)}
	if l.origins == nil {
		l.origins = map[string]Origin{}
	}
	l.merge(treeOf(base))
	return l
}

func treeOf(c *Config) map[string]any {
	tree, _ := root().tree(reflect.ValueOf(c).Elem()).(map[string]any)
	return tree
}

// merge merges a layer over the existing layers: maps key by key, lists as a whole.
func (l *loader) merge(layer map[string]any) {
	if err := l.merged.Load(confmap.Provider(layer, ""), nil); err != nil {
		l.report.add(Origin{}, "", "%v", err)
	}
}

// files reads the base file, the project file, and the local file next to it.
func (l *loader) files(from Sources) {
	base, named := from.Base, from.Base != ""
	if !named {
		base, named = basePath(from.Env)
	}
	if base != "" {
		l.file(base, named)
	}
	project := from.Project
	if project == "" && from.Dir != "" {
		project = filepath.Join(from.Dir, FileName)
	}
	if project == "" {
		return
	}
	if from.Project != "" || from.Trusts == nil {
		l.file(project, from.Project != "")
		l.file(localPath(project), false)
		return
	}
	l.found(project, from)
	l.found(localPath(project), from)
}

// found reads a file that was not named explicitly. If it is not trusted, it restricts its settings,
// or leaves it out.
func (l *loader) found(path string, from Sources) {
	data, err := readFile(path)
	if err != nil {
		l.file(path, false) // it reports the error
		return
	}
	whole := Origin{Source: SourceFile, File: path}
	l.report.layer(whole)
	if from.Trusts(path, data) {
		l.yaml(data, path)
		return
	}
	if from.LeftOut != nil {
		from.LeftOut(path)
		return
	}
	base, err := l.soFar()
	if err != nil {
		return // the errors of the lower layers are reported instead
	}
	tree, ok := l.decode(data, path)
	if !ok {
		return
	}
	before := len(l.report.mistakes)
	g := guard{loader: l, base: base, who: "an untrusted file"}
	g.check(root(), tree, treeOf(base), "", "")
	if len(l.report.mistakes) > before {
		l.report.add(whole, "", "contains settings that only an operator may set, and is not trusted; if you wrote or reviewed it, run: rgpt trust %s", filepath.Dir(path))
		return
	}
	l.merge(tree)
}

// soFar is the configuration of the layers merged so far.
func (l *loader) soFar() (*Config, error) {
	below := &loader{origins: maps.Clone(l.origins), merged: l.merged.Copy()}
	return below.finish()
}

// basePath finds the base file, and reports whether it was named explicitly.
func basePath(env []string) (path string, named bool) {
	vars := environ(env)
	switch {
	case vars["RGPT_CONFIG_BASE"] != "":
		return vars["RGPT_CONFIG_BASE"], true
	case vars["XDG_CONFIG_HOME"] != "":
		return filepath.Join(vars["XDG_CONFIG_HOME"], "rgpt", FileName), false
	case vars["HOME"] != "":
		return filepath.Join(vars["HOME"], ".config", "rgpt", FileName), false
	default:
		return "", false
	}
}

// localPath: rgpt.yaml → rgpt.local.yaml.
func localPath(project string) string {
	ext := filepath.Ext(project)
	return strings.TrimSuffix(project, ext) + ".local" + ext
}

// maxFile is larger than any sensible configuration, but small enough to read.
const maxFile = 1 << 20

func (l *loader) file(path string, mustExist bool) {
	whole := Origin{Source: SourceFile, File: path}
	l.report.layer(whole)
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !mustExist {
		return
	}
	if err != nil {
		l.report.add(whole, "", "cannot be read: %v", cause(err))
		return
	}
	l.yaml(data, path)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %s", Size(maxFile))
	}
	return data, err
}

// cause removes the path from an error, because the message already contains it.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// yaml merges a file's content.
func (l *loader) yaml(data []byte, path string) {
	if tree, ok := l.decode(data, path); ok {
		l.merge(tree)
	}
}

// decode reads a file's content against the schema.
func (l *loader) decode(data []byte, path string) (map[string]any, bool) {
	at := func(line int) Origin {
		return Origin{Source: SourceFile, File: path, Line: line, Repository: l.repository}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, false // an empty file sets nothing
	}
	if err != nil {
		line, text := syntaxError(err)
		l.report.add(at(line), "", "invalid YAML: %s", text)
		return nil, false
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.report.add(at(0), "", "expected a single YAML document")
		return nil, false
	}
	d := decoder{report: &l.report, origins: l.origins, at: func(n *yaml.Node) Origin { return at(n.Line) }}
	v, ok := d.value(doc.Content[0], root(), "")
	tree, _ := v.(map[string]any)
	return tree, ok
}

// syntaxError extracts the line from the parser's message.
func syntaxError(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if n, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil && n == 1 {
		_, text, _ = strings.Cut(text, ": ")
	}
	return line, text
}

// finish turns the merged values into settings and validates them.
func (l *loader) finish() (*Config, error) {
	tree := l.merged.Raw()
	root().fill(tree)
	c := &Config{}
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: c, TagName: "yaml", ErrorUnused: true})
	if err == nil {
		err = dec.Decode(tree)
	}
	if err != nil {
		l.report.add(Origin{}, "", "%v", err)
		return nil, l.report.err()
	}
	c.origins = l.origins
	check(c, &l.report)
	l.password(c)
	if err := l.report.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// password adds the password from its file to the database URL, unless the URL already has one.
func (l *loader) password(c *Config) {
	const key = "database.password_file"
	db := &c.Database
	if db.URL == "" || db.PasswordFile == "" || passwordOf(db.URL) != "" {
		return
	}
	u, err := url.Parse(db.URL)
	if err != nil {
		return // reported already
	}
	text, err := readFile(db.PasswordFile)
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		l.report.add(l.origins[key], key, "cannot be read: %v", cause(err))
		return
	case password == "":
		l.report.add(l.origins[key], key, "expected a file that contains a password, but the file is empty")
		return
	}
	u.User = url.UserPassword(u.User.Username(), password)
	db.URL = u.String()
}
