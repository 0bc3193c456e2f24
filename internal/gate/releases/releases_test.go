package releases_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registries is a server that answers for the registries of all ecosystems, each below its name.
type registries struct {
	*httptest.Server
	sync.Mutex
	answers map[string]string // by path, escaped as requested
	asked   []string
}

func serve(t testing.TB, answers map[string]string) *registries {
	r := &registries{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.Lock()
		r.asked = append(r.asked, q.URL.EscapedPath())
		text, ok := r.answers[q.URL.EscapedPath()]
		r.Unlock()
		at, text, dated := strings.Cut(text, "|")
		if !dated {
			text = at
		} else {
			w.Header().Set("Last-Modified", at)
		}
		if !ok {
			http.NotFound(w, q)
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *registries) count() int {
	r.Lock()
	defer r.Unlock()
	return len(r.asked)
}

// settings are those of a client of the registries below a URL.
func settings(base string) config.GateDependencies {
	cfg := config.Default().Gate.Dependencies
	cfg.Lookup = true
	cfg.Registries = config.GateRegistries{
		Go: base + "/go", NPM: base + "/npm/", PyPI: base + "/pypi", Crates: base + "/crates", Maven: base + "/maven", RubyGems: base + "/gems",
		Composer: base + "/composer", NuGet: base + "/nuget",
	}
	return cfg
}

func client(t testing.TB, cfg config.GateDependencies) *releases.Client {
	c, err := releases.New(cfg, "")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// lookup looks up what a new file adds.
func lookup(t testing.TB, c *releases.Client, path, content string) []change.Dependency {
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{path: content})
	require.NoError(t, c.Lookup(t.Context(), &ch))
	return ch.Dependencies
}

const (
	first, published = "2020-01-02T03:04:05Z", "2026-11-25T01:02:03Z"
	modified         = "Wed, 25 Nov 2026 01:02:03 GMT"
	oldest           = "Thu, 02 Jan 2020 03:04:05 GMT"
)

func everywhere() map[string]string {
	return map[string]string{
		"/go/github.com/!acme/x/@v/list":                       "v1.2.3\nv1.0.0\n",
		"/go/github.com/!acme/x/@v/v1.2.3.info":                `{"Version":"v1.2.3","Time":"` + published + `"}`,
		"/go/github.com/!acme/x/@v/v1.0.0.info":                `{"Version":"v1.0.0","Time":"` + first + `"}`,
		"/npm/@acme%2Fx":                                       `{"_id":"x","readme":"\"time\": {","versions":{"1.0.0":{"time":1,"a":["time",{}]}},"time":{"created":"` + first + `","modified":"` + published + `","1.0.0":"` + first + `","1.2.3":"` + published + `"},"x":1}`,
		"/pypi/pypi/acme-x/json":                               `{"info":{},"releases":{"1.0":[{"upload_time_iso_8601":"` + first + `"}],"1.2.3":[{"upload_time_iso_8601":"2026-11-26T00:00:00Z"},{"upload_time_iso_8601":"` + published + `"}],"9":[]}}`,
		"/crates/ac/me/acme_x":                                 `{"vers":"1.0.0","pubtime":"` + first + `"}` + "\n" + `{"vers":"1.2.3","pubtime":"` + published + `"}`,
		"/maven/com/acme/x/maven-metadata.xml":                 `<metadata><versioning><versions><version>1.0.0</version><version>1.2.3</version></versions></versioning></metadata>`,
		"/maven/com/acme/x/1.2.3/x-1.2.3.pom":                  modified + "|",
		"/maven/com/acme/x/1.0.0/x-1.0.0.pom":                  oldest + "|",
		"/gems/api/v1/versions/acme-x.json":                    `[{"number":"1.2.3","created_at":"` + published + `","platform":"ruby"},{"number":"1.0.0","created_at":"` + first + `"}]`,
		"/composer/p2/acme/x.json":                             `{"packages":{"acme/x":[{"version":"v1.2.3","time":"` + published + `"},{"version":"v1.0.0","time":"` + first + `"}]}}`,
		"/nuget/v3-flatcontainer/acme.x/index.json":            `{"versions":["1.0.0","1.2.3"]}`,
		"/nuget/v3/registration5-gz-semver2/acme.x/1.2.3.json": `{"published":"` + published + `"}`,
		"/nuget/v3/registration5-gz-semver2/acme.x/1.0.0.json": `{"published":"` + first + `"}`,
	}
}

// manifests name version 1.2.3 of the packages of everywhere; %s is replaced by another name or version.
var manifests = map[string]struct{ path, known, otherVersion, otherName string }{
	"go":       {"go.mod", "module a\n\nrequire github.com/Acme/x v1.2.3\n", "module a\n\nrequire github.com/Acme/x v1.9.0\n", "module a\n\nrequire github.com/Acme/y v1.2.3\n"},
	"npm":      {"package.json", `{"dependencies":{"@acme/x":"1.2.3"}}`, `{"dependencies":{"@acme/x":"1.9.0"}}`, `{"dependencies":{"@acme/y":"1.2.3"}}`},
	"pypi":     {"requirements.txt", "Acme_X==1.2.3\n", "Acme_X==9\n", "acme-y==1.2.3\n"},
	"crates":   {"Cargo.toml", "[dependencies]\nacme_x = '=1.2.3'\n", "[dependencies]\nacme_x = '=1.9.0'\n", "[dependencies]\nacme_y = '=1.2.3'\n"},
	"maven":    {"build.gradle", "implementation 'com.acme:x:1.2.3'", "implementation 'com.acme:x:1.9.0'", "implementation 'com.acme:y:1.2.3'"},
	"gems":     {"Gemfile", "gem 'acme-x', '1.2.3'\n", "gem 'acme-x', '1.9.0'\n", "gem 'acme-y', '1.2.3'\n"},
	"composer": {"composer.json", `{"require":{"acme/x":"1.2.3"}}`, `{"require":{"acme/x":"1.9.0"}}`, `{"require":{"acme/y":"1.2.3"}}`},
	"nuget":    {"a.csproj", `<P><PackageReference Include="Acme.X" Version="1.2.3" /></P>`, "", `<P><PackageReference Include="Acme.Y" Version="1.2.3" /></P>`},
}

func TestEachRegistrySaysWhenAVersionAndItsPackageWerePublished(t *testing.T) {
	t.Parallel()
	c := client(t, settings(serve(t, everywhere()).URL))
	for name, m := range manifests {
		found := lookup(t, c, m.path, m.known)
		require.Len(t, found, 1, name)
		require.Equal(t, change.StatusFound, found[0].Status, "%s: %s", name, found[0].Reason)
		require.Equal(t, published, found[0].Published.UTC().Format(time.RFC3339), name)
		require.Equal(t, first, found[0].First.UTC().Format(time.RFC3339), name)
	}
}

func TestWhatARegistryDoesNotHaveIsSaid(t *testing.T) {
	t.Parallel()
	c := client(t, settings(serve(t, everywhere()).URL))
	for name, m := range manifests {
		if m.otherVersion != "" {
			require.Equal(t, change.StatusNoVersion, lookup(t, c, m.path, m.otherVersion)[0].Status, name)
		}
		require.Equal(t, change.StatusNotFound, lookup(t, c, m.path, m.otherName)[0].Status, name)
	}
}

func TestARangeMayNameAVersionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	c := client(t, settings(serve(t, everywhere()).URL))
	found := lookup(t, c, "package.json", `{"dependencies":{"@acme/x":"^1"}}`)
	require.Equal(t, change.StatusFound, found[0].Status)
	require.True(t, found[0].Published.IsZero())
	require.Equal(t, first, found[0].First.Format(time.RFC3339))
	require.Equal(t, published, lookup(t, c, "package.json", `{"dependencies":{"@acme/x":"~1.2.3"}}`)[0].Published.Format(time.RFC3339))
}

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	c := client(t, settings(r.URL))
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"requirements.txt": "acme-x==1.2.3\nacme-y==1\n"})
	cached, err := c.Cached(t.Context(), ch)
	require.NoError(t, err)
	require.False(t, cached)
	require.NoError(t, c.Lookup(t.Context(), &ch))
	asked := r.count()
	require.Equal(t, 2, asked)
	cached, err = c.Cached(t.Context(), ch)
	require.NoError(t, err)
	require.True(t, cached)
	before := ch.Dependencies
	require.NoError(t, c.Lookup(t.Context(), &ch))
	require.Equal(t, before, ch.Dependencies)
	require.Equal(t, asked, r.count())
	lookup(t, c, "requirements.txt", "acme-x==1.0\n")
	require.Equal(t, asked+1, r.count(), "another version is asked about")
	lookup(t, c, "requirements.txt", "acme-x==1.2.3\n")
	require.Equal(t, asked+1, r.count(), "which does not make it forget the first")
}

func TestNamesThatMustStayPrivateAreNeverSent(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	cfg := settings(r.URL)
	cfg.Private = []string{"@acme/*", "corp.example/*", "com.acme.*", "secret-*"}
	c, err := releases.New(cfg, "git.example,*.internal.example")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for path, content := range map[string]string{
		"package.json":     `{"dependencies":{"@acme/x":"1.2.3","@ACME/z":"1.0.0"}}`,
		"go.mod":           "module a\n\nrequire (\n\tcorp.example/a/b v1.0.0\n\tgit.example/x v1.0.0\n\ta.internal.example/y v1.0.0\n)\n",
		"build.gradle":     "implementation 'com.acme.tools:x:1.2.3'",
		"requirements.txt": "secret-thing==1\n",
	} {
		found := lookup(t, c, path, content)
		require.NotEmpty(t, found, path)
		for _, d := range found {
			require.Equal(t, change.StatusPrivate, d.Status, d.Name)
		}
	}
	require.Zero(t, r.count())
}

func TestARegistryThatIsOffIsNotAsked(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	cfg := settings(r.URL)
	cfg.Registries.NPM = ""
	require.Equal(t, change.StatusOff, lookup(t, client(t, cfg), "package.json", manifests["npm"].known)[0].Status)
	require.Zero(t, r.count())
	cfg.Lookup = false
	c, err := releases.New(cfg, "")
	require.NoError(t, err)
	require.Nil(t, c)
}

func TestPackagesOfOtherRegistriesAndOfTheRepositoryAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	c := client(t, settings(r.URL))
	entry := `{"packages":{"node_modules/x":{"version":"1.0.0","resolved":"https://npm.corp.example/x/-/x-1.0.0.tgz"}}}`
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{
		"package.json": `{"dependencies":{"x":"^1.0.0","@own/b":"^1.0.0","y":"file:../y","z":"github:z/z","w":"workspace:*"}}`, "package-lock.json": entry,
		"b/package.json": `{"name":"@own/b"}`,
	})
	require.NoError(t, c.Lookup(t.Context(), &ch))
	require.Len(t, ch.Dependencies, 2)
	for _, d := range ch.Dependencies {
		switch d.Name {
		case "x":
			require.Equal(t, change.StatusUnknown, d.Status)
			require.Contains(t, d.Reason, "another registry")
		default:
			require.Equal(t, change.StatusLocal, d.Status)
			require.Equal(t, "b/package.json", d.Reason)
		}
	}
	require.Zero(t, r.count())
}

func TestPackagesOfAPrivateRegistryOfNPMAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	c := client(t, settings(r.URL))
	for rc, asked := range map[string]int{
		"@acme:registry=https://npm.corp.example/\n": 0, " registry = ${REGISTRY}\n": 0, "registry=https://npm.corp.example\n@acme:registry=" + r.URL + "/npm/\n": 1,
		"@other:registry=https://npm.corp.example/\n": 1, "# registry\n": 1,
	} {
		for _, at := range []string{".npmrc", "web/.npmrc"} {
			c, before := client(t, settings(r.URL)), r.count()
			ch := gatetest.Between(gatetest.Tree{at: rc}, gatetest.Tree{at: rc, "web/package.json": `{"dependencies":{"@acme/x":"1.2.3"}}`})
			require.NoError(t, c.Lookup(t.Context(), &ch))
			require.Len(t, ch.Dependencies, 1)
			require.Equal(t, asked, r.count()-before, rc)
			require.Equal(t, asked == 1, ch.Dependencies[0].Status == change.StatusFound, rc)
		}
	}
	found := lookup(t, c, "package.json", `{"dependencies":{"@acme/x":"1.2.3"}}`)
	require.Equal(t, change.StatusFound, found[0].Status)
}

func TestHostileNamesChangeNeitherHostNorPath(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	c := client(t, settings(r.URL+"/base"))
	names := []string{"../../admin", "..", "%2e%2e/x", "x?y=z", "x#y", "@a/../../x", "//evil.example/x", "x\\y", "http://evil.example", "a b", "x\x00y", "@evil.example:80/x", ".", "-/all", strings.Repeat("a", 5000)}
	for _, name := range names {
		for path, content := range map[string]string{
			"package.json": fmt.Sprintf(`{"dependencies":{%q:"1.0.0"}}`, name), "composer.json": fmt.Sprintf(`{"require":{%q:"1.0.0"}}`, "a/"+name),
			"Cargo.toml": fmt.Sprintf("[dependencies]\n%q = '=1.0.0'\n", name), "Gemfile": "gem '" + name + "', '1.0.0'\n",
			"build.gradle": "implementation 'com.acme:x:" + name + "'", "a.csproj": `<P><PackageReference Include="` + name + `" Version="1" /></P>`,
		} {
			ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{path: content})
			require.NoError(t, c.Lookup(t.Context(), &ch))
		}
	}
	r.Lock()
	defer r.Unlock()
	for _, path := range r.asked {
		require.Regexp(t, `^/base/(npm|composer/p2|crates|gems/api/v1/versions|maven/com/acme/x|nuget/v3-flatcontainer)/`, path)
		clean, err := url.PathUnescape(path)
		require.NoError(t, err)
		require.NotContains(t, clean, "/..")
	}
}

func TestRedirectsToOtherHostsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(other.Close)
	answers := everywhere()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/npm/moved":
			http.Redirect(w, q, "/npm/here", http.StatusMovedPermanently)
		case "/npm/here":
			fmt.Fprint(w, answers["/npm/@acme%2Fx"])
		default:
			http.Redirect(w, q, other.URL, http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	c := client(t, settings(server.URL))
	require.Equal(t, change.StatusFound, lookup(t, c, "package.json", `{"dependencies":{"moved":"1.2.3"}}`)[0].Status)
	found := lookup(t, c, "package.json", `{"dependencies":{"x":"1.2.3"}}`)[0]
	require.Equal(t, change.StatusUnknown, found.Status)
	require.Contains(t, found.Reason, "answered 302")
	require.False(t, reached.Load())
}

func TestWhatIsNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch asked.Add(1); q.URL.Path {
		case "/npm/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/npm/refused":
			w.WriteHeader(http.StatusForbidden)
		case "/npm/nonsense":
			fmt.Fprint(w, "<html>")
		case "/npm/slow":
			select {
			case <-release:
			case <-q.Context().Done():
			}
		case "/npm/endless":
			fmt.Fprint(w, `{"readme":"`)
			chunk := strings.Repeat("x", 1<<20)
			for range 70 {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	for name, want := range map[string]struct {
		reason string
		asked  int32
	}{
		"broken": {"answered 502", 2}, "refused": {"answered 403", 1}, "nonsense": {"cannot be read", 1}, "endless": {"larger than 64 MiB", 1},
		"slow": {"did not answer within 300ms", 1},
	} {
		cfg := settings(server.URL)
		if name == "slow" {
			cfg.Timeout = 300 * time.Millisecond
		}
		before := asked.Load()
		c := client(t, cfg)
		for range 2 { // the second is answered from memory
			found := lookup(t, c, "package.json", `{"dependencies":{"`+name+`":"1.2.3"}}`)[0]
			require.Equal(t, change.StatusUnknown, found.Status, name)
			require.Contains(t, found.Reason, want.reason)
		}
		require.Equal(t, want.asked, asked.Load()-before, name)
	}
}

func TestLookupsEndInTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(server.Close)
	cfg := settings(server.URL)
	cfg.Total, cfg.Timeout = 200*time.Millisecond, time.Minute
	c := client(t, cfg)
	found := lookup(t, c, "package.json", many(30))
	require.Len(t, found, 30)
	for _, d := range found {
		require.Equal(t, change.StatusUnknown, d.Status)
		require.Contains(t, d.Reason, "gate.dependencies.total")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"package.json": many(3)})
	require.ErrorIs(t, c.Lookup(ended, &ch), context.Canceled)
}

func TestARegistryThatFailsIsNotAskedAboutEverything(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	found := lookup(t, client(t, settings(server.URL)), "package.json", many(150))
	require.Len(t, found, 150)
	for _, d := range found {
		require.Equal(t, change.StatusUnknown, d.Status)
	}
	require.Less(t, asked.Load(), int32(30))
}

func TestOnlySoManyPackagesAreLookedUp(t *testing.T) {
	t.Parallel()
	r := serve(t, map[string]string{})
	cfg := settings(r.URL)
	cfg.Packages = 10
	statuses := map[change.Status]int{}
	for _, d := range lookup(t, client(t, cfg), "package.json", many(15)) {
		statuses[d.Status]++
	}
	require.Equal(t, map[change.Status]int{change.StatusNotFound: 10, change.StatusUnknown: 5}, statuses)
	require.Equal(t, 10, r.count())
}

func TestAProbeTellsARegistryFromAnotherServer(t *testing.T) {
	t.Parallel()
	right := client(t, settings(serve(t, map[string]string{
		"/npm/left-pad": `{"time":{"1.0.0":"` + first + `"}}`,
	}).URL))
	require.NoError(t, right.Probe(t.Context(), "npm"))
	require.ErrorContains(t, right.Probe(t.Context(), "PyPI"), "does not have the package six")
	require.Len(t, right.Ecosystems(), 8)
}

func many(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"thing-%d":"1.0.0"`, i))
	}
	return `{"dependencies":{` + strings.Join(names, ",") + `}}`
}

// BenchmarkLookup measures 20 new dependencies, with a registry that answers after 20 ms, and again from
// memory.
func BenchmarkLookup(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(20 * time.Millisecond)
		fmt.Fprint(w, `{"time":{"1.0.0":"`+first+`"}}`)
	}))
	b.Cleanup(server.Close)
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"package.json": many(20)})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, client(b, settings(server.URL)).Lookup(b.Context(), &ch))
		}
	})
	b.Run("warm", func(b *testing.B) {
		c := client(b, settings(server.URL))
		for b.Loop() {
			require.NoError(b, c.Lookup(b.Context(), &ch))
		}
	})
}
