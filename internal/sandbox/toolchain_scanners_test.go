package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// TestAScannerAmongOtherProgramsExposesNothingElse: gitleaks in ~/go/bin must not show ~/go.
func TestAScannerAmongOtherProgramsExposesNothingElse(t *testing.T) {
	home := sandboxtest.RealDir(t)
	bin := filepath.Join(home, "go", "bin")
	sandboxtest.WriteFiles(t, home, map[string]string{"go/bin/other": sandboxtest.CanarySecret, "go/secret": sandboxtest.CanarySecret})
	data, err := os.ReadFile(resolve("true"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gitleaks"), data, 0o755))
	proctest.WriteProgram(t, filepath.Join(bin, "osv-scanner"), "#!/bin/sh\nexec true\n")
	t.Setenv("HOME", home)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	tools := DetectToolchains()
	require.NotEmpty(t, tools.Scanners["gitleaks"])
	require.NotContains(t, tools.Scanners, "osv-scanner")
	require.Contains(t, strings.Join(tools.Refused, "\n"), "osv-scanner is not available to commands: "+filepath.Join(bin, "osv-scanner")+" is not a program but a script")
	p, err := NewProcess(Options{Toolchains: tools})
	require.NoError(t, err)
	res := runCommand(t, p, Command{Shell: "command -v gitleaks && gitleaks && ls /opt/scanners/bin; command -v osv-scanner; cat " + home + "/go/secret"})
	require.Equal(t, "/opt/scanners/bin/gitleaks\ngitleaks\n", string(res.Stdout), "%s", res.Stderr)
	require.NotContains(t, string(res.Stderr), sandboxtest.CanarySecret)
}

// TestPipAuditAuditsTheOtherPython: its own packages must not be among those that it audits.
func TestPipAuditAuditsTheOtherPython(t *testing.T) {
	python := resolve("python3")
	if python == "" {
		t.Skip("python3 is not installed")
	}
	home := sandboxtest.RealDir(t)
	require.NoError(t, exec.Command("python3", "-m", "venv", "--without-pip", filepath.Join(home, "venv")).Run())
	packages, err := filepath.Glob(filepath.Join(home, "venv/lib/python3*/site-packages"))
	require.NoError(t, err)
	require.Len(t, packages, 1)
	sandboxtest.WriteFiles(t, packages[0], map[string]string{
		"pip_audit/__init__.py": "__version__ = '2.99.1'\n",
		"pip_audit/_cli.py":     "import subprocess, sys\ndef audit():\n    print(sys.argv)\n    subprocess.run([sys.executable, '-c', 'import pip_audit'])\n",
	})
	program := filepath.Join(home, "venv/bin/pip-audit")
	proctest.WriteProgram(t, program, "#!"+filepath.Join(home, "venv/bin/python3")+"\nimport pip_audit._cli\n")
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	tools := DetectToolchains()
	require.Equal(t, "2.99.1", tools.Scanners["pip-audit"], "%s", tools.Refused)
	p, err := NewProcess(Options{Toolchains: tools})
	require.NoError(t, err)
	res := runCommand(t, p, Command{Shell: "command -v pip-audit && pip-audit --format=json"})
	require.Equal(t, "/opt/scanners/bin/pip-audit\n['pip-audit', '--format=json']\n", string(res.Stdout), "%s", res.Stderr)
	require.Contains(t, string(res.Stderr), "No module named 'pip_audit'")
}
