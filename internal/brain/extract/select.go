package extract

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// DefaultMaxFileSize is the size of the largest file that is indexed unless the settings say otherwise.
const DefaultMaxFileSize = 1 << 20

// Reason says why a file is not indexed.
type Reason string

// The reasons why a file is not indexed.
const (
	ReasonNone      Reason = ""
	ReasonSize      Reason = "too large"
	ReasonEmpty     Reason = "empty"
	ReasonBinary    Reason = "binary"
	ReasonGenerated Reason = "generated"
	ReasonVendored  Reason = "vendored"
	ReasonSecret    Reason = "may contain secrets"
)

// WantedPath says whether a file is worth reading, by its path with slashes and its size. Paths that
// no file on this host should be named are not wanted either.
func WantedPath(name string, size, most int64) (bool, Reason) {
	switch {
	case size == 0:
		return false, ReasonEmpty
	case size > most:
		return false, ReasonSize
	}
	for dir := range strings.SplitSeq(path.Dir(name), "/") {
		if vendored[dir] {
			return false, ReasonVendored
		}
		if secretDirs[dir] {
			return false, ReasonSecret
		}
	}
	base := strings.ToLower(path.Base(name))
	switch {
	case secretName(base):
		return false, ReasonSecret
	case slices.Contains(lockFiles, base), generatedName.MatchString(base):
		return false, ReasonGenerated
	case slices.Contains(binaryExtensions, path.Ext(base)):
		return false, ReasonBinary
	}
	return true, ReasonNone
}

// Wanted says whether a file is indexed, given also the first bytes of its content.
func Wanted(name string, size int64, head []byte, most int64) (bool, Reason) {
	if ok, why := WantedPath(name, size, most); !ok {
		return false, why
	}
	return WantedContent(name, head)
}

// WantedContent says whether a file is indexed, by its content. The first headBytes are enough to
// find binary files and most generated ones; private keys and minified files are found in all that is
// given.
func WantedContent(name string, content []byte) (bool, Reason) {
	head := content[:min(len(content), 8<<10)]
	switch {
	case bytes.IndexByte(head, 0) >= 0:
		return false, ReasonBinary
	case generatedContent(head):
		return false, ReasonGenerated
	case minified(name, content):
		return false, ReasonGenerated
	case bytes.Contains(content, []byte("PRIVATE KEY-----")) && bytes.Contains(content, []byte("-----BEGIN ")) && !code(name):
		return false, ReasonSecret
	}
	return true, ReasonNone
}

// VendoredDir reports whether a directory of that name contains code of others, or what tools made.
func VendoredDir(name string) bool { return vendored[name] }

var vendored = words(`vendor node_modules bower_components third_party third-party thirdparty 3rdparty Godeps Pods Carthage
	.git .svn .hg __pycache__ .venv venv site-packages .tox .eggs .mypy_cache .pytest_cache .gradle .terraform .yarn
	.next .nuxt .idea dist-packages jspm_packages`)

var secretDirs = words(`.ssh .gnupg .aws .azure .kube .docker secrets .secrets`)

var lockFiles = []string{
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "go.sum", "go.work.sum", "cargo.lock",
	"gemfile.lock", "composer.lock", "poetry.lock", "pipfile.lock", "pdm.lock", "uv.lock", "mix.lock", "flake.lock", "podfile.lock",
	"packages.lock.json", "gradle.lockfile", "pubspec.lock", ".terraform.lock.hcl", "deno.lock", "conan.lock", "cartfile.resolved", "package.resolved",
}

var generatedName = regexp.MustCompile(`([.-]min\.(js|css|mjs)|\.pb\.(go|cc|h|swift)|_pb2(_grpc)?\.pyi?|_pb\.(js|d\.ts|rb)|\.g\.(dart|cs)|\.designer\.cs|\.generated\.[a-z]+|_generated\.[a-z]+|zz_generated.*\.go|\.map|\.bundle\.js|\.snap)$`)

var binaryExtensions = []string{
	".png", ".jpg", ".jpeg", ".gif", ".ico", ".webp", ".bmp", ".tiff", ".psd", ".svg", ".pdf", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar",
	".jar", ".war", ".class", ".so", ".dylib", ".dll", ".exe", ".a", ".o", ".obj", ".lib", ".pyc", ".wasm", ".woff", ".woff2", ".ttf", ".otf", ".eot",
	".mp3", ".mp4", ".mov", ".avi", ".wav", ".ogg", ".webm", ".flac", ".bin", ".dat", ".db", ".sqlite", ".sqlite3", ".parquet", ".onnx", ".pt", ".npy", ".npz", ".pkl",
	".xlsx", ".docx", ".pptx", ".nupkg", ".snk", ".icns", ".mo",
}

// secretName says that a file's name, in lower case, is one that often has secrets in it. Examples,
// such as .env.example, are not among them.
func secretName(base string) bool {
	ext := path.Ext(base)
	if slices.Contains([]string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".gpg", ".ovpn", ".p8", ".der", ".kubeconfig", ".tfstate", ".tfvars"}, ext) {
		return true
	}
	if base == ".env" || strings.HasPrefix(base, ".env.") || ext == ".env" {
		return !slices.Contains([]string{".example", ".sample", ".template", ".dist", ".defaults"}, ext)
	}
	switch base {
	case ".npmrc", ".pypirc", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg", ".dockerconfigjson", ".envrc",
		"credentials", "credentials.json", "credentials.yml", "credentials.yaml", "credentials.xml", "service-account.json", "service_account.json",
		"secrets.json", "secrets.yml", "secrets.yaml", "secrets.toml", "secret.json", "secret.yml", "secret.yaml", "master.key", "kubeconfig",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".vault_pass", ".boto", ".s3cfg", "wp-config.php", "terraform.tfstate.backup":
		return true
	}
	return strings.HasSuffix(base, ".enc") || strings.HasSuffix(base, ".yml.enc")
}

var generatedMarks = [][]byte{
	[]byte("Code generated by"), []byte("@generated"), []byte("<auto-generated"), []byte("Autogenerated by"), []byte("AUTO-GENERATED FILE"),
	[]byte("Generated by the protocol buffer compiler"), []byte("This file was automatically generated"), []byte("This file is automatically generated"),
	[]byte("This file is auto-generated"), []byte("This file is autogenerated"),
}

// SaysGenerated reports whether the first lines of a text say that it is generated.
func SaysGenerated(text []byte) bool { return generatedContent(text) }

// generatedContent says that the first lines say that the file is generated.
func generatedContent(head []byte) bool {
	head = head[:min(len(head), 1<<10)]
	for _, mark := range generatedMarks {
		i := bytes.Index(head, mark)
		if i < 0 {
			continue
		}
		line := head[bytes.LastIndexByte(head[:i], '\n')+1 : i]
		// Within code, such as this list of marks, the words say nothing about the file.
		if len(bytes.TrimLeft(line, "/*#;!-<% \t")) == 0 || bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("//")) || bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) {
			return true
		}
	}
	return false
}

const (
	// minifiedSize is the size from which a file can be minified.
	minifiedSize = 4 << 10
	// minifiedLine is the mean length of the lines of a minified file.
	minifiedLine = 400
)

// minified says that the lines are too long to be written by people.
func minified(name string, content []byte) bool {
	if len(content) < minifiedSize || !code(name) && path.Ext(name) != ".css" && path.Ext(name) != ".json" {
		return false
	}
	return len(content)/(1+bytes.Count(content, []byte{'\n'})) > minifiedLine
}

// code says whether a file has a known programming language, by its name.
func code(name string) bool {
	for _, p := range processors {
		if l, ok := p.(*language); ok && l.Matches(name, nil) {
			return true
		}
	}
	return false
}
