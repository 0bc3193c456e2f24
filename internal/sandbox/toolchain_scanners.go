package sandbox

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Scanners search for vulnerabilities and secrets. A check uses those of the checkout's own
// environment first, then those of the worker.

// scannersInside is the sandbox directory of scanners that are outside the system directories.
const scannersInside = toolchainRoot + "/scanners/bin"

// pipAuditInside is the sandbox directory of the packages of pip-audit.
const pipAuditInside = toolchainRoot + "/pip-audit"

// scannerPrograms are scanners that consist of one program, with the arguments that print the version
// of those that were not built by Go. The others could try to reach their database to answer.
var scannerPrograms = map[string][]string{
	"govulncheck": nil, "gitleaks": nil, "osv-scanner": nil, "cargo-audit": {"audit", "--version"},
}

// scan adds the worker's scanners, each alone: the directory of a program such as ~/go/bin contains
// others. It must run after python.
func (d *detection) scan() map[string]string {
	versions := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(scannerPrograms)) {
		path := resolve(name)
		if path == "" {
			continue
		}
		if !isELF(path) {
			d.refuse(name, path+" is not a program but a script, which may need other files")
			continue
		}
		versions[name] = d.scannerVersion(name, path)
		d.addScanner(name, versions[name], path)
	}
	if version := d.pipAudit(); version != "" {
		versions["pip-audit"] = version
	}
	return versions
}

func (d *detection) addScanner(name, version, path string) {
	d.found = append(d.found, strings.TrimSpace(name+" "+version)+" at "+path)
	if visibleAnyway(path) {
		d.addBin(filepath.Dir(path))
		return
	}
	d.mounts = append(d.mounts, mount{Kind: mountReadOnly, Source: path, Target: filepath.Join(scannersInside, name)})
	d.addBin(scannersInside)
}

func (d *detection) scannerVersion(name, path string) string {
	if args := scannerPrograms[name]; args != nil {
		return versionNumber.FindString(string(d.ask(path, args...)))
	}
	if info, err := buildinfo.ReadFile(path); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	// A build without a version: its content identifies it as far as its size and time do.
	if info, err := os.Stat(path); err == nil {
		return info.ModTime().UTC().Format("2006.1.2-150405")
	}
	return ""
}

// isELF reports whether a file is a program for the kernel.
func isELF(path string) bool { return bytes.HasPrefix(head(path), []byte("\x7fELF")) }

// head returns the beginning of a file.
func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	data, _ := io.ReadAll(io.LimitReader(f, 256))
	return data
}

var pythonShebang = regexp.MustCompile(`^#!\s*(\S*/python[0-9.]*)\s*$`)

// pipAudit makes pip-audit available: its packages alone, run by the Python of the sandbox, which is
// the one of the checkout's virtual environment if there is one. They must have been installed for
// the same version of Python.
func (d *detection) pipAudit() (version string) {
	path := resolve("pip-audit")
	if path == "" || d.pythonVersion == "" {
		return ""
	}
	interpreter := "python3"
	if line, err := bufio.NewReader(bytes.NewReader(head(path))).ReadString('\n'); err == nil {
		if found := pythonShebang.FindStringSubmatch(strings.TrimSpace(line)); found != nil {
			interpreter = found[1]
		}
	}
	const question = `import os, sys, pip_audit; print(os.path.dirname(os.path.dirname(os.path.realpath(pip_audit.__file__))), pip_audit.__version__, "%d.%d" % sys.version_info[:2], sep="\n")`
	answer := strings.Split(strings.TrimSpace(string(d.ask(interpreter, "-c", question))), "\n")
	if len(answer) != 3 {
		d.refuse("pip-audit", "the Python of "+path+" does not find its packages")
		return ""
	}
	dir, err := filepath.EvalSymlinks(answer[0])
	switch reason := exposes(dir, ""); {
	case err != nil:
		return ""
	case answer[2] != d.pythonVersion:
		d.refuse("pip-audit", "it is installed for Python "+answer[2]+", but commands use Python "+d.pythonVersion)
		return ""
	case reason != "":
		d.refuse("pip-audit", "its directory is "+dir+", and "+reason)
		return ""
	}
	d.found = append(d.found, "pip-audit "+answer[1]+" at "+dir)
	d.mounts = append(d.mounts,
		mount{Kind: mountReadOnly, Source: dir, Target: pipAuditInside},
		mount{Kind: mountProgram, Target: filepath.Join(scannersInside, "pip-audit"), Data: []byte(pipAuditProgram)})
	d.addBin(scannersInside)
	return answer[1]
}

// pipAuditProgram finds the packages of pip-audit without PYTHONPATH, through which the audited Python
// would find them, too.
const pipAuditProgram = `#!/bin/sh
exec python3 -c 'import sys
sys.path.insert(0, "` + pipAuditInside + `")
sys.argv[0] = "pip-audit"
from pip_audit._cli import audit
audit()' "$@"
`
