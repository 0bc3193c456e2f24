package pin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

// wrapped is a test in a function that only wraps t.Run.
const wrapped = `
func TestA(t *testing.T) {
	for _, n := range []int{1, 2} {
		subtest(t, "n", func(t *testing.T) {
			require.Equal(t, n, A(n))
			require.True(t, B(n))
		})
	}
}`

const wrapper = `
func subtest(t *testing.T, name string, f func(t *testing.T)) {
	var any interface{} = t
	if r, ok := any.(interface{ Run(string, func(*testing.T)) bool }); ok {
		r.Run(name, f)
	} else {
		f(t)
	}
}`

func TestAFunctionThatWrapsRunCountsLikeRun(t *testing.T) {
	t.Parallel()
	const call = "\t\tsubtest(t, \"n\", "
	always := strings.Split(wrapper, "\tvar any")[0] + "\tt.Run(name, f)\n}"
	never := strings.Split(wrapper, "\tvar any")[0] + "\t_ = f\n}"
	sometimes := strings.Split(wrapper, "\tvar any")[0] + "\tif os.Getenv(\"CI\") != \"\" {\n\t\tf(t)\n\t}\n}"
	named := "\nfunc checkA(t *testing.T) { require.Equal(t, 1, A(1)) }\nfunc TestA(t *testing.T) { subtest(t, \"n\", checkA) }"
	nothing := with(never, "subtest", "nothing")
	nested := func(run string) string {
		return "\nfunc TestA(t *testing.T) {\n\t" + run + "title(), func(t *testing.T) {\n\t\tsubtest(t, \"m\", func(t *testing.T) { require.Equal(t, 1, A(1)) })\n\t})\n}"
	}
	shadowed := func(last string) string {
		return "\nfunc f(t *testing.T) { require.True(t, C()) }\nfunc TestB(t *testing.T) {\n\trun := func(f func(*testing.T)) { f(t) }\n\trun(func(t *testing.T) { require.True(t, B()) })\n\t" + last + "\n}"
	}
	local := func(body string) string {
		return "\nfunc TestA(t *testing.T) {\n\trun := func(f func(t *testing.T)) {\n\t\t" + body + "\n\t}\n\trun(func(t *testing.T) { require.Equal(t, 1, A(1)) })\n}"
	}
	try(t, []example{
		goCase("it is replaced by Run", wrapped+wrapper, with(wrapped, call, "\t\tt.Run(\"n\", "), "edited TestA"),
		goCase("it now always runs", wrapped+wrapper, wrapped+always, "edited"),
		goCase("it no longer runs what it is given", wrapped+always, wrapped+never, "emptied"),
		goCase("it no longer runs a function with a name", named+always, named+never, "emptied"),
		goCase("it runs what it is given under a condition", wrapped+always, wrapped+sometimes, "weakened"),
		goCase("it no longer runs what no test gives it", goPlain+always, goPlain+never, "weakened"),
		goCase("a function that runs nothing replaces Run", with(wrapped, call, "\t\tt.Run(\"n\", ")+never, wrapped+never, "emptied TestA"),
		goCase("a function that sometimes runs it replaces Run", with(wrapped, call, "\t\tt.Run(title(n), ")+sometimes, wrapped+sometimes, "weakened TestA"),
		goCase("what it is given is in a function that nothing runs", nested("t.Run(")+always+nothing, nested("nothing(t, ")+always+nothing, "emptied TestA"),
		goCase("a function has the name of a parameter elsewhere", goPlain+shadowed("f(t)"), goPlain+shadowed(""), "weakened TestB"),
		goCase("a function within the test no longer runs it", local("f(t)"), local("_ = f"), "emptied TestA"),
		goCase("a function within the test is replaced by Run", local("f(t)"), with(local("f(t)"), "f(t)", "t.Run(\"n\", f)"), "edited TestA"),
	})
}

func TestAHelperStandsForTheTestsThatLeanOnIt(t *testing.T) {
	t.Parallel()
	const tests = 12
	var calls strings.Builder
	for n := range tests {
		fmt.Fprintf(&calls, "\nfunc TestOf%02d(t *testing.T) { checkPage(t, Login(%d)) }", n, n)
	}
	const page = `
func checkPage(t *testing.T, p Page) { checkUser(t, p.User) }
func checkUser(t *testing.T, u User) {
	require.Equal(t, "ada", u.Name)
	require.Equal(t, 36, u.Age)
}`
	weaker := with(page, "\trequire.Equal(t, 36, u.Age)\n", "")
	change := func(before, after string) []pin.Problem {
		return checked([]pin.File{
			{Path: "helpers_test.go", Before: []byte(goFile(before)), After: []byte(goFile(after)), Existed: true, Exists: true},
			{Path: "login_test.go", Before: []byte(goFile(calls.String())), After: []byte(goFile(calls.String())), Existed: true, Exists: true},
		})
	}

	problems := change(page, weaker)
	require.Len(t, problems, 1)
	p := problems[0]
	require.Equal(t, pin.Weakened, p.Kind)
	require.Equal(t, "helpers_test.go", p.Path)
	require.Len(t, p.Leaning, tests, "all of them, so that nothing is lost")
	require.Contains(t, p.Message, "checkUser, which tests use, now performs fewer checks: 1 instead of 2; therefore these 12 tests check less: TestOf00, TestOf01, ")
	require.Contains(t, p.Message, "TestOf09 and 2 more")
	require.NotContains(t, p.Message, "TestOf10")

	problems = change(page, with(page, "\trequire.Equal(t, \"ada\", u.Name)\n\trequire.Equal(t, 36, u.Age)\n", "\t_ = u\n"))
	require.Len(t, problems, 1)
	require.Equal(t, pin.Emptied, problems[0].Kind)

	problems = change(page, with(page, "Equal(t, \"ada\", u.Name)", "NotEmpty(t, u.Name)"))
	require.Len(t, problems, 1, "as many checks, but one of them nearly always holds")
	require.Equal(t, pin.Weakened, problems[0].Kind)
	require.Contains(t, problems[0].Message, "checkUser, which tests use, checks less; ")
}

func TestATestWhoseLossIsNotThatOfAHelperIsReportedByItself(t *testing.T) {
	t.Parallel()
	const test = "\nfunc TestA(t *testing.T) { checkUser(t, A()) }"
	const helper = "\nfunc checkUser(t *testing.T, u User) {\n\trequire.Equal(t, \"ada\", u.Name)\n\trequire.Equal(t, 36, u.Age)\n}"
	try(t, []example{
		goCase("deleted", test+helper, test, "weakened TestA"),
		goCase("weaker, like the test", with(test, "A()) }", "A()); require.True(t, B()) }")+helper,
			test+with(helper, "\trequire.Equal(t, 36, u.Age)\n", ""), "weakened TestA", "weakened"),
		{"replaced in another file", []change{
			{"a_test.go", goFile(test + helper), goFile(test)},
			{"b_test.go", gone, goFile("\nfunc checkUser(t *testing.T, u User) {}")},
		}, []string{"emptied TestA"}},
	})
}
