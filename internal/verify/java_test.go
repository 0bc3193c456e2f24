package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestJavaIsPlannedForMavenOrGradle(t *testing.T) {
	t.Parallel()
	p := plan(t, checkout(t, map[string]string{"pom.xml": "", "module/pom.xml": ""}), detected())
	require.Equal(t, [][]string{{"build-java"}, {"test-java-1"}}, ids(p))
	require.Equal(t, "mvn --batch-mode --no-transfer-progress -Dstyle.color=never --offline test", p.Command("test-java-1"))
	s := detected()
	s.Build.Network = checks.Hosts{"repo.maven.apache.org"}
	p = plan(t, checkout(t, map[string]string{"build.gradle.kts": "", "gradlew": ""}), s)
	require.Equal(t, "sh ./gradlew --no-daemon --console=plain test --continue", p.Command("test-java-1"))
}

func TestStacksOfJavaLeadToSourceFiles(t *testing.T) {
	t.Parallel()
	const source = "app/src/test/java/com/example/AppTest.java"
	root := checkout(t, map[string]string{"pom.xml": "", source: "", "lib/src/test/java/com/other/AppTest.java": ""})
	report, err := os.ReadFile("output/testdata/junit/surefire.xml")
	require.NoError(t, err)
	runner := &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) {
		dir := filepath.Join(root, "app/target/surefire-reports")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return sandbox.Result{}, err
		}
		return sandbox.Result{ExitCode: 1}, os.WriteFile(filepath.Join(dir, "TEST-com.example.AppTest.xml"), report, 0o644)
	}}
	o := runWith(t, root, "test-java-1", Env{Runner: runner, Settings: detected()})
	require.Equal(t, source+":12", caseNamed(t, o, "fails").Location)
	require.Empty(t, caseNamed(t, o, "errs").Location)
	require.Equal(t, 2, o.Summary.Failed)
	require.Equal(t, 1, o.Summary.Skipped)
}
