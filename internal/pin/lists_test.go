package pin_test

import "testing"

func TestAListOfTheSameNameInAnotherBlockIsNotTheTable(t *testing.T) {
	t.Parallel()
	const py = `import pytest

EVEN = [2, 4]


def test_even():
    for n in EVEN:
        assert even(n)


def test_odd():
    numbers = [1, 3]
    for n in numbers:
        assert not even(n)


def test_all():
    numbers = [1, 2]
    assert list(count(2)) == numbers
`
	const js = `describe('numbers', () => {
  let numbers: Base[]

  before(() => { numbers = [new Base()] })

  it('odd', () => {
    const numbers = [1, 3]
    for (const n of numbers) { expect(even(n)).toBe(false) }
  })

  it('all', () => {
    const numbers = [1, 2]
    expect(count(2)).toEqual(numbers)
  })
})
`
	const hook = `describe('numbers', () => {
  let numbers

  before(() => { numbers = [new Base()] })

  it('odd', () => { numbers.forEach(n => { expect(even(n)).toBe(false) }) })
})
`
	try(t, []example{
		pyCase("python: a list of another test", py, with(py, "numbers = [1, 2]", "numbers = [1, 2, 3]", "count(2)", "count(3)"), "edited test_all"),
		pyCase("python: a new test has one", py, py+"\n\ndef test_added():\n    numbers = [9]\n    EVEN = [6]\n    assert sum(numbers + EVEN) == 15\n"),
		pyCase("python: its own list", py, with(py, "numbers = [1, 3]", "numbers = [1]"), "weakened test_odd"),
		pyCase("python: the list of the file", py, with(py, "EVEN = [2, 4]", "EVEN = [2]"), "weakened test_even"),
		pyCase("python: the list of the file, defined below", with(py, "EVEN = [2, 4]\n", "")+"\nEVEN = [2, 4]\n", with(py, "EVEN = [2, 4]\n", "")+"\nEVEN = [2]\n", "weakened test_even"),
		jsCase("js: a list of another test", js, with(js, "numbers = [1, 2]", "numbers = [1, 2, 3]", "count(2)", "count(3)"), "edited numbers > all"),
		jsCase("js: a list of a hook", hook, with(hook, "[new Base()]", "[new Base(1)]"), "edited"),
		jsCase("js: its own list", js, with(js, "numbers = [1, 3]", "numbers = [1]"), "weakened numbers > odd"),
	})
}

func TestAFunctionDeclaredAfterAReturnCanBeCalled(t *testing.T) {
	t.Parallel()
	const js = `it('compiles', function () {
  compile(schema, function (validate) { spec(validate) })

  function spec(validate) {
    expect(validate(1)).toBe(true)
    expect(validate('a')).toBe(false)
  }
})
`
	try(t, []example{
		jsCase("the calls are awaited", js, with(js, "compile(schema, function (validate) { spec(validate) })", "const p = compile(schema).then(function (validate) { spec(validate) })\n  return p"), "edited compiles"),
		jsCase("what is below a return does not run", js, with(js, "  compile(schema", "  expect(1 + one).toBe(2)\n  return one\n  compile(schema"), "weakened compiles"),
	})
}
