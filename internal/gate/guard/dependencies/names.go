package dependencies

import (
	"embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

//go:embed names/*.txt
var nameFiles embed.FS

// files of popular names, by ecosystem. A line that begins with # is a comment.
var files = map[Ecosystem]string{
	Go: "go", NPM: "npm", PyPI: "pypi", Crates: "crates", RubyGems: "rubygems", Composer: "packagist", Maven: "maven", NuGet: "nuget",
}

// popularNames are the normal forms of popular names, by ecosystem.
var popularNames = sync.OnceValue(func() map[Ecosystem][]string {
	out := map[Ecosystem][]string{}
	for e, file := range files {
		content, _ := nameFiles.ReadFile("names/" + file + ".txt") // embedded, so it cannot fail
		for line := range strings.Lines(string(content)) {
			for word := range strings.FieldsSeq(line) {
				if strings.HasPrefix(word, "#") {
					break
				}
				out[e] = append(out[e], normal(e, word))
			}
		}
		slices.Sort(out[e])
	}
	return out
})

// popular reports whether a name is one of the popular ones.
func popular(e Ecosystem, name string) bool {
	_, found := slices.BinarySearch(popularNames()[e], normal(e, name))
	return found
}

var pythonRuns = regexp.MustCompile(`[-_.]+`)

// Normal returns the form in which an ecosystem compares names: names with the same form are one package.
func Normal(e Ecosystem, name string) string { return normal(e, name) }

// normal returns the form in which an ecosystem compares names.
func normal(e Ecosystem, name string) string {
	switch e {
	case PyPI:
		return strings.ToLower(pythonRuns.ReplaceAllString(name, "-"))
	case Crates:
		return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	case NuGet, Composer:
		return strings.ToLower(name)
	case Go:
		if i := strings.LastIndex(name, "/v"); i > 0 && strings.Trim(name[i+2:], "0123456789") == "" {
			name = name[:i]
		}
		if i := strings.LastIndex(name, ".v"); i > 0 && strings.Trim(name[i+2:], "0123456789") == "" {
			name = name[:i]
		}
	default:
	}
	return name
}

// The shortest names that are compared: by one edit, by two, with the repository's own names.
const (
	minOneEdit  = 5
	minTwoEdits = 11
	minOwn      = 8
	maxName     = 200
)

// lookAlike returns a known name that a name can be mistaken for; "" if there is none. exact says that
// both look the same.
func lookAlike(e Ecosystem, name string, own []string) (like string, exact bool) {
	name = normal(e, name)
	if popular(e, name) || len(name) > maxName {
		return "", false
	}
	if p := skeletons()[e][skeleton(name)]; p != "" {
		return p, true
	}
	for _, p := range popularNames()[e] {
		if near(name, p) || affixed(e, name, p) {
			return p, false
		}
	}
	for _, o := range own {
		if o = normal(e, o); len(o) >= minOwn && o != name && near(name, o) && !numbered(name, o) {
			return o, false
		}
	}
	return "", false
}

// skeleton is the same for names that look the same: with 0 for o, 1 for l, rn for m, letters of other
// scripts, and without signs between words.
func skeleton(s string) string {
	s = strings.Map(func(r rune) rune {
		if latin, ok := homoglyphs[r]; ok {
			return latin
		}
		return r
	}, strings.ToLower(s))
	return lookingSame.Replace(s)
}

var lookingSame = strings.NewReplacer("0", "o", "1", "l", "rn", "m", "vv", "w", "_", "-", ".", "-")

// skeletons are the popular names by their skeletons.
var skeletons = sync.OnceValue(func() map[Ecosystem]map[string]string {
	out := map[Ecosystem]map[string]string{}
	for e, names := range popularNames() {
		out[e] = map[string]string{}
		for _, n := range names {
			if s := skeleton(n); out[e][s] == "" {
				out[e][s] = n
			}
		}
	}
	return out
})

// homoglyphs are letters of other scripts that look like Latin ones.
var homoglyphs = map[rune]rune{
	'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ј': 'j', 'ѕ': 's', 'ԁ': 'd', 'һ': 'h', 'ո': 'n', 'ν': 'v', 'ο': 'o', 'α': 'a', 'ι': 'i', 'κ': 'k', 'ρ': 'p', 'τ': 't', 'ı': 'i', 'ɡ': 'g', 'ⅼ': 'l',
}

// near reports whether two names differ by a typing error: one edit or two exchanged letters, or two edits
// of long names.
func near(a, b string) bool {
	shorter := min(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	if diff := len(a) - len(b); shorter < minOneEdit || diff > 2 || diff < -2 {
		return false
	}
	// A part of a path or a scope is compared, because all of it is long.
	if i, j := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/'); i > 0 && i == j && a[:i] == b[:j] {
		a, b = a[i+1:], b[j+1:]
		shorter = min(len(a), len(b))
	}
	if shorter < minOneEdit || numbered(a, b) {
		return false
	}
	switch levenshtein.ComputeDistance(a, b) {
	case 1:
		return shorter > minOneEdit || len(a) != len(b)
	case 2:
		return exchanged(a, b) || shorter >= minTwoEdits && a[0] == b[0] && !strings.ContainsAny(a, "/:")
	}
	return false
}

// exchanged reports whether two names differ by two exchanged neighbours.
func exchanged(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// numbered reports whether two names differ only by digits, such as php80 and php81.
func numbered(a, b string) bool {
	const all = "0123456789"
	return strings.Map(drop(all), a) == strings.Map(drop(all), b)
}

func drop(chars string) func(rune) rune {
	return func(r rune) rune {
		if strings.ContainsRune(chars, r) {
			return -1
		}
		return r
	}
}

// affixes are what is added to popular names to make others of them.
var affixes = map[Ecosystem][]string{
	NPM:  {"js-", "-js", "node-", "-node", "js", ".js", "-official", "-lib", "-npm", "npm-"},
	PyPI: {"py-", "-py", "py", "python-", "-python", "python3-", "-official", "-lib", "-pip"},
}

// affixed reports whether a name is a popular one with an affix.
func affixed(e Ecosystem, name, popular string) bool {
	if len(popular) < minOneEdit || len(name) <= len(popular) || strings.ContainsRune(popular, '/') {
		return false
	}
	rest, ok := strings.CutPrefix(name, popular)
	if !ok {
		if rest, ok = strings.CutSuffix(name, popular); !ok {
			return false
		}
	}
	return slices.Contains(affixes[e], rest)
}

// malicious are names under which malicious code was published, with what it was. Only names whose every
// use is wrong are listed; names of good packages of which single versions were malicious need advisories.
var malicious = map[Ecosystem]map[string]string{
	NPM: {
		"crossenv": "it stole environment variables", "cross-env.js": "it stole environment variables", "d3.js": "it stole environment variables", "fabric-js": "it stole environment variables",
		"ffmepg": "it stole environment variables", "gruntcli": "it stole environment variables", "http-proxy.js": "it stole environment variables", "jquery.js": "it stole environment variables",
		"mongose": "it stole environment variables", "mssql.js": "it stole environment variables", "mysqljs": "it stole environment variables", "nodecaffe": "it stole environment variables",
		"nodefabric": "it stole environment variables", "node-fabric": "it stole environment variables", "nodeffmpeg": "it stole environment variables", "nodemailer-js": "it stole environment variables",
		"nodemailer.js": "it stole environment variables", "nodemssql": "it stole environment variables", "noderequest": "it stole environment variables", "nodesass": "it stole environment variables",
		"nodesqlite": "it stole environment variables", "opencv.js": "it stole environment variables", "openssl.js": "it stole environment variables", "proxy.js": "it stole environment variables",
		"shadowsock": "it stole environment variables", "sqlite.js": "it stole environment variables", "sqliter": "it stole environment variables", "sqlserver": "it stole environment variables",
		"tkinter": "it stole environment variables", "babelcli": "it stole environment variables", "flatmap-stream": "it stole wallets", "loadyaml": "it sent data of the machine",
		"twilio-npm": "it opened a remote shell", "discord.dll": "it stole tokens",
	},
	PyPI: {
		"python3-dateutil": "it stole keys", "jeilyfish": "it stole keys", "colourama": "it replaced addresses of wallets", "acqusition": "it sent data of the machine", "apidev-coop": "it sent data of the machine",
		"bzip": "it sent data of the machine", "crypt": "it sent data of the machine", "django-server": "it sent data of the machine", "setup-tools": "it sent data of the machine", "telnet": "it sent data of the machine",
		"urlib3": "it sent data of the machine", "urllib": "it sent data of the machine", "libpeshnx": "it opened a back door",
		"request": "it installed a back door", "beautifulsup4": "it stole data", "requesys": "it encrypted files", "requesrs": "it encrypted files", "requesr": "it encrypted files", "maratlib": "it mined coins",
	},
	Crates:   {"rustdecimal": "it installed a remote access tool", "faster-log": "it stole keys of wallets", "async-println": "it stole keys of wallets"},
	RubyGems: {"atlas-client": "it stole addresses of wallets", "ruby-bitcoin": "it stole addresses of wallets", "pretty_color": "it stole addresses of wallets"},
	Go:       {"github.com/boltdb-go/bolt": "it opened a back door", "github.com/shallowmulti/hypert": "it ran remote code", "github.com/shadowybulk/hypert": "it ran remote code"},
}

// deprecated are packages that their authors gave up, with the successor that they name.
var deprecated = map[Ecosystem]map[string]string{
	NPM: {
		"request": "undici or fetch", "request-promise": "undici or fetch", "tslint": "typescript-eslint", "node-sass": "sass", "babel-eslint": "@babel/eslint-parser", "istanbul": "nyc or c8", "jade": "pug", "bower": "npm",
		"left-pad": "String.prototype.padStart", "querystring": "URLSearchParams", "uglify-es": "terser", "node-uuid": "uuid", "popper.js": "@popperjs/core", "gulp-util": "its parts", "har-validator": "ajv",
		"core-decorators": "the language's decorators", "protractor": "another test tool", "phantomjs": "puppeteer or playwright", "phantomjs-prebuilt": "puppeteer or playwright", "vue-template-compiler": "@vue/compiler-sfc", "eslint-loader": "eslint-webpack-plugin",
	},
	PyPI: {
		"sklearn": "scikit-learn", "pycrypto": "pycryptodome or cryptography", "nose": "pytest", "distribute": "setuptools", "pep8": "pycodestyle", "bs4": "beautifulsoup4",
		"raven": "sentry-sdk", "aioredis": "redis", "pysha3": "hashlib", "pytest-runner": "pytest", "azure": "the azure packages of each service", "pypdf2": "pypdf",
	},
	Go: {
		"github.com/dgrijalva/jwt-go": "github.com/golang-jwt/jwt", "github.com/pkg/errors": "errors of the standard library", "github.com/golang/protobuf": "google.golang.org/protobuf", "github.com/satori/go.uuid": "github.com/google/uuid",
		"github.com/boltdb/bolt": "go.etcd.io/bbolt", "github.com/coreos/bbolt": "go.etcd.io/bbolt", "github.com/golang/mock": "go.uber.org/mock", "github.com/streadway/amqp": "github.com/rabbitmq/amqp091-go", "github.com/go-redis/redis": "github.com/redis/go-redis",
		"github.com/mitchellh/mapstructure": "github.com/go-viper/mapstructure", "github.com/aws/aws-sdk-go": "github.com/aws/aws-sdk-go-v2", "github.com/gorilla/context": "context of the standard library",
	},
	Crates:   {"failure": "thiserror or anyhow", "structopt": "clap", "rustc-serialize": "serde", "tempdir": "tempfile", "serde-yaml": "another YAML crate", "ansi-term": "nu-ansi-term", "dirs-next": "dirs", "atty": "std::io::IsTerminal", "users": "uzers"},
	RubyGems: {"therubyracer": "mini_racer", "factory_girl": "factory_bot", "factory_girl_rails": "factory_bot_rails", "paperclip": "Active Storage", "protected_attributes": "strong parameters"},
	Composer: {"swiftmailer/swiftmailer": "symfony/mailer", "fzaninotto/faker": "fakerphp/faker", "phpunit/phpunit-mock-objects": "phpunit/phpunit", "facebook/graph-sdk": "direct calls of the API", "fideloper/proxy": "Laravel's own TrustProxies"},
	Maven:    {"log4j:log4j": "org.apache.logging.log4j:log4j-core", "commons-httpclient:commons-httpclient": "org.apache.httpcomponents.client5:httpclient5", "mysql:mysql-connector-java": "com.mysql:mysql-connector-j", "junit:junit-dep": "org.junit.jupiter:junit-jupiter"},
	NuGet:    {"microsoft.azure.storage.blob": "azure.storage.blobs", "windowsazure.storage": "azure.storage.blobs", "system.data.sqlclient": "microsoft.data.sqlclient"},
}
