package releases

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

// asks are the ways in which the registries of ecosystems are asked.
var asks = map[dependencies.Ecosystem]ask{
	dependencies.Go: askGo, dependencies.NPM: askNPM, dependencies.PyPI: askPyPI, dependencies.Crates: askCrates,
	dependencies.Maven: askMaven, dependencies.RubyGems: askRubyGems, dependencies.Composer: askComposer, dependencies.NuGet: askNuGet,
}

// wellKnown are packages that each registry has.
var wellKnown = map[dependencies.Ecosystem]string{
	dependencies.Go: "golang.org/x/mod", dependencies.NPM: "left-pad", dependencies.PyPI: "six", dependencies.Crates: "itoa",
	dependencies.Maven: "junit:junit", dependencies.RubyGems: "rake", dependencies.Composer: "psr/log", dependencies.NuGet: "newtonsoft.json",
}

// maxName is the length of the longest name that is sent.
const maxName = 300

// names are the names that registries allow. None contains what has a meaning in a URL or a part that
// consists of dots.
var names = map[dependencies.Ecosystem]*regexp.Regexp{
	dependencies.NPM:      regexp.MustCompile(`^(?:@[A-Za-z0-9~_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*$`),
	dependencies.PyPI:     regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`),
	dependencies.Crates:   regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`),
	dependencies.RubyGems: regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`),
	dependencies.Maven:    regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*:[A-Za-z0-9_-][A-Za-z0-9._-]*$`),
	dependencies.Composer: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*$`),
	dependencies.NuGet:    regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`),
}

// validName reports whether a name can be sent to the registry of an ecosystem.
func validName(e dependencies.Ecosystem, name string) bool {
	if e == dependencies.Go {
		return len(name) <= maxName && module.CheckPath(name) == nil
	}
	return len(name) <= maxName && names[e] != nil && names[e].MatchString(name)
}

// pathVersion is a version that can be a part of a path.
var pathVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

// askGo asks a module proxy. The time of a version is that of its commit, which its author chose.
func askGo(ctx context.Context, r request, name string, versions []string) (answer, error) {
	escaped, err := module.EscapePath(name)
	if err != nil {
		return answer{}, errors.New("its name is not valid in a registry")
	}
	info := func(version string) (time.Time, error) {
		v, err := module.EscapeVersion(version)
		if err != nil || !semver.IsValid(version) {
			return time.Time{}, errMissing
		}
		var doc struct{ Time time.Time }
		err = r.get(ctx, escaped+"/@v/"+v+".info", func(in io.Reader) error { return json.NewDecoder(in).Decode(&doc) })
		return doc.Time, err
	}
	var lowest string
	listErr := r.get(ctx, escaped+"/@v/list", func(in io.Reader) error {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if v := strings.TrimSpace(lines.Text()); semver.IsValid(v) && (lowest == "" || semver.Compare(v, lowest) < 0) {
				lowest = v
			}
		}
		return lines.Err()
	})
	if listErr != nil && !errors.Is(listErr, errMissing) {
		return answer{}, listErr
	}
	a, err := each(versions, lowest, info)
	if err == nil && listErr != nil && len(a.versions) == 0 {
		return answer{}, errMissing
	}
	return a, err
}

// each asks about versions one by one, and about the first one of the package.
func each(versions []string, first string, at func(version string) (time.Time, error)) (answer, error) {
	a := answer{versions: map[string]time.Time{}}
	for _, v := range versions {
		t, err := at(v)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return answer{}, err
		}
		a.versions[v] = t
	}
	if first == "" {
		return a, nil
	}
	t, known := a.versions[first]
	if !known {
		var err error
		if t, err = at(first); err != nil && !errors.Is(err, errMissing) {
			return answer{}, err
		}
	}
	a.first = t
	return a, nil
}

// askNPM reads the document of a package, which is large if it has many versions; smaller ones have no
// times. All before the times is skipped as it arrives.
func askNPM(ctx context.Context, r request, name string, versions []string) (answer, error) {
	var times map[string]json.RawMessage
	err := r.get(ctx, strings.Replace(name, "/", "%2F", 1), func(in io.Reader) error { return decodeKey(in, "time", &times) })
	if err != nil {
		return answer{}, err
	}
	all := make([]release, 0, len(times))
	for v, raw := range times {
		var at time.Time
		if json.Unmarshal(raw, &at) != nil || v == "modified" {
			continue // "unpublished" is an object
		}
		all = append(all, release{v, at})
	}
	return choose(ctx, dependencies.NPM, all, versions)
}

// askPyPI reads all releases of a project. One without files is withdrawn.
func askPyPI(ctx context.Context, r request, name string, versions []string) (answer, error) {
	var releases map[string][]struct {
		At time.Time `json:"upload_time_iso_8601"`
	}
	path := "pypi/" + dependencies.Normal(dependencies.PyPI, name) + "/json"
	if err := r.get(ctx, path, func(in io.Reader) error { return decodeKey(in, "releases", &releases) }); err != nil {
		return answer{}, err
	}
	var all []release
	for v, files := range releases {
		for _, f := range files {
			all = append(all, release{v, f.At})
		}
	}
	return choose(ctx, dependencies.PyPI, all, versions)
}

// askCrates reads the file of a crate in the sparse index: one line for each version.
func askCrates(ctx context.Context, r request, name string, versions []string) (answer, error) {
	lower := strings.ToLower(name)
	var path string
	switch len(lower) {
	case 1, 2:
		path = string('0'+byte(len(lower))) + "/" + lower
	case 3:
		path = "3/" + lower[:1] + "/" + lower
	default:
		path = lower[:2] + "/" + lower[2:4] + "/" + lower
	}
	var all []release
	err := r.get(ctx, path, func(in io.Reader) error {
		all = nil
		lines := json.NewDecoder(in)
		for {
			var line struct {
				Vers    string     `json:"vers"`
				PubTime *time.Time `json:"pubtime"`
			}
			if err := lines.Decode(&line); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			v := release{version: line.Vers}
			if line.PubTime != nil {
				v.at = *line.PubTime
			}
			all = append(all, v)
		}
	})
	if err != nil {
		return answer{}, err
	}
	return choose(ctx, dependencies.Crates, all, versions)
}

// askMaven reads the list of versions of an artifact. Their times are those of their files.
func askMaven(ctx context.Context, r request, name string, versions []string) (answer, error) {
	group, artifact, _ := strings.Cut(name, ":")
	place := strings.ReplaceAll(group, ".", "/") + "/" + artifact + "/"
	var doc struct {
		Versions []string `xml:"versioning>versions>version"`
	}
	if err := r.get(ctx, place+"maven-metadata.xml", func(in io.Reader) error { return xml.NewDecoder(in).Decode(&doc) }); err != nil {
		return answer{}, err
	}
	first := ""
	if len(doc.Versions) > 0 {
		first = doc.Versions[0]
	}
	return each(versions, first, func(version string) (time.Time, error) {
		if !pathVersion.MatchString(version) {
			return time.Time{}, errMissing
		}
		return r.modified(ctx, place+url.PathEscape(version)+"/"+artifact+"-"+url.PathEscape(version)+".pom")
	})
}

// askRubyGems reads the versions of a gem, with one entry for each platform.
func askRubyGems(ctx context.Context, r request, name string, versions []string) (answer, error) {
	var list []struct {
		Number string    `json:"number"`
		At     time.Time `json:"created_at"`
	}
	if err := r.get(ctx, "api/v1/versions/"+name+".json", func(in io.Reader) error { return json.NewDecoder(in).Decode(&list) }); err != nil {
		return answer{}, err
	}
	all := make([]release, len(list))
	for i, v := range list {
		all[i] = release{v.Number, v.At}
	}
	return choose(ctx, dependencies.RubyGems, all, versions)
}

// askComposer reads the metadata of a package, in which fields that do not change from version to version
// are left out.
func askComposer(ctx context.Context, r request, name string, versions []string) (answer, error) {
	var doc struct {
		Packages map[string][]struct {
			Version string     `json:"version"`
			Time    *time.Time `json:"time"`
		} `json:"packages"`
	}
	name = strings.ToLower(name)
	if err := r.get(ctx, "p2/"+name+".json", func(in io.Reader) error { return json.NewDecoder(in).Decode(&doc) }); err != nil {
		return answer{}, err
	}
	var all []release
	var last time.Time
	for _, v := range doc.Packages[name] {
		if v.Time != nil {
			last = *v.Time
		}
		all = append(all, release{v.Version, last})
	}
	return choose(ctx, dependencies.Composer, all, versions)
}

// unlisted is the latest time that NuGet gives to versions that are not listed.
var unlisted = time.Date(1901, 1, 1, 0, 0, 0, 0, time.UTC)

// askNuGet reads the versions of a package, and then the entry of each.
func askNuGet(ctx context.Context, r request, name string, versions []string) (answer, error) {
	name = strings.ToLower(name)
	var doc struct {
		Versions []string `json:"versions"`
	}
	if err := r.get(ctx, "v3-flatcontainer/"+name+"/index.json", func(in io.Reader) error { return json.NewDecoder(in).Decode(&doc) }); err != nil {
		return answer{}, err
	}
	first := ""
	if len(doc.Versions) > 0 {
		first = doc.Versions[0]
	}
	read := make([]dependencies.Version, len(doc.Versions))
	for i, known := range doc.Versions {
		read[i] = dependencies.ReadVersion(dependencies.NuGet, known)
	}
	return each(versions, first, func(version string) (time.Time, error) {
		asked := dependencies.ReadVersion(dependencies.NuGet, strings.ToLower(version))
		for i, known := range doc.Versions {
			if read[i].Same(asked) {
				version = known
			}
		}
		if !pathVersion.MatchString(version) {
			return time.Time{}, errMissing
		}
		var leaf struct{ Published time.Time }
		path := "v3/registration5-gz-semver2/" + name + "/" + url.PathEscape(version) + ".json"
		err := r.get(ctx, path, func(in io.Reader) error { return json.NewDecoder(in).Decode(&leaf) })
		if leaf.Published.Before(unlisted) {
			leaf.Published = time.Time{}
		}
		return leaf.Published, err
	})
}
