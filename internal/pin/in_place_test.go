package pin_test

import (
	"strings"
	"testing"
)

func TestTheOnlyNewTestInThePlaceOfATestReplacesIt(t *testing.T) {
	t.Parallel()
	const js = `describe('compile', () => {
  it('returns a function', () => {
    expect(compile({ type: 'string' })).toBeInstanceOf(Function)
  })

  it('should validate schema when it is compiled', () => {
    ajv.errors = null
    ajv.compile({ type: null })
    expect(ajv.errors.length).toBeGreaterThan(0)
  })

  it('caches', () => {
    expect(compile(a)).toBe(compile(a))
  })
})
`
	const was = "compile > should validate schema when it is compiled"
	const title, body = "should validate schema when it is compiled", "    ajv.errors = null\n    ajv.compile({ type: null })\n    expect(ajv.errors.length).toBeGreaterThan(0)"
	becomes := func(newTitle, newBody string) string { return with(js, title, newTitle, body, newBody) }
	const throws = "    expect(() => { ajv.compile({ type: null }) }).toThrow()"
	try(t, []example{
		jsCase("with another outcome", js, becomes("should throw if invalid schema is compiled", throws), "edited compile > should throw if invalid schema is compiled"),
		jsCase("without checks", js, becomes("should throw if invalid schema is compiled", "    ajv.compile({ type: null })"), "emptied compile > should throw if invalid schema is compiled"),
		jsCase("with another name", js, becomes("accepts options", throws), "deleted "+was),
		jsCase("with the opposite name", js, becomes("should not throw if invalid schema is compiled", throws), "deleted "+was),
		jsCase("with other words", js, becomes("should throw if invalid schema is compiled", "    expect(parse(text)).toEqual(tree)"), "deleted "+was),
		jsCase("one of two", js, becomes("should throw if invalid schema is compiled", throws+"\n  })\n\n  it('should throw if compiled twice', () => {\n    expect(() => { ajv.compile({ type: null }) }).toThrow()"), "deleted "+was),
		jsCase("elsewhere", js, with(becomes("caches", "    expect(compile(a)).toBe(compile(a))"), "'caches', () => {\n    expect(compile(a)).toBe(compile(a))\n  })\n})", "'should throw if invalid schema is compiled', () => {\n"+throws+"\n  })\n})"), "deleted "+was),
	})
}

func TestATestOfTwoBuildsMayBecomeOne(t *testing.T) {
	t.Parallel()
	const one, two = "func TestDecode(t *testing.T) {\n\tif err := decode(original, v); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n", "func TestDecode(t *testing.T) {\n\tt.Fatal(decode(original))\n}\n"
	change2 := func(path, was, is string) []change {
		return []change{{"toml/codec_test.go", "//go:build old\n\n" + goFile(was), goFile(is)}, {path, "//go:build !old\n\n" + goFile(one), gone}}
	}
	try(t, []example{
		{"the same test", change2("toml/codec2_test.go", one, one), nil},
		{"another test", change2("toml/codec2_test.go", two, two), []string{"deleted TestDecode"}},
		{"a test of another package", change2("yaml/codec_test.go", one, one), []string{"deleted TestDecode"}},
	})
}

func TestAssertionsOfShouldAreChecks(t *testing.T) {
	t.Parallel()
	const js = `it('adds', function (done) {
  add(1, 2, function (err, sum) {
    should.not.exist(err)
    should.equal(sum, 3)
    done()
  })
})
`
	try(t, []example{
		jsCase("one is gone", js, with(js, "    should.equal(sum, 3)\n", ""), "weakened adds"),
		jsCase("all are gone", js, with(js, "    should.equal(sum, 3)\n", "", "    should.not.exist(err)\n", ""), "emptied adds"),
		jsCase("a promise is returned", js, "it('adds', function () {\n  return add(1, 2).then(function (sum) {\n    should.equal(sum, 3)\n  })\n})\n", "edited adds"),
		jsCase("a promise is returned, and the checks are in a function",
			"it('adds', function (done) {\n  add(1, 2, three)\n  function three(err, sum) { should.not.exist(err); should.equal(sum, 3); done() }\n})\n",
			"it('adds', function () {\n  return add(1, 2).then(three)\n  function three(sum) { should.equal(sum, 3) }\n})\n", "edited adds", "edited"),
	})
}

func TestATestMayBecomeATestOfANewGroup(t *testing.T) {
	t.Parallel()
	const js = `describe('strict', () => {
  it('accepts', () => {
    expect(compile({ type: 'string' })).toBeTruthy()
  })

  it('should prohibit base case', () => {
    expect(() => compile({ type: 'object', properties: { a: {} }, required: ['test'] })).toThrow('required property test is not defined')
  })
})
`
	const was, is = "strict > should prohibit base case", "strict > base case > should prohibit with strictRequired: true"
	old := js[strings.Index(js, "  it('should"):strings.LastIndex(js, "})")]
	group := func(tests string) string {
		return with(js, old, "  describe('base case', () => {\n    const schema = { type: 'object', properties: { a: {} }, required: ['test'] }\n\n"+tests+"  })\n")
	}
	const throws = "    it('should prohibit with strictRequired: true', () => {\n      expect(() => compile(schema)).toThrow('required property test is not defined')\n    })\n"
	const accepts = "    it('should NOT prohibit when strictRequired is not set', () => {\n      expect(() => new Ajv().compile(schema)).not.toThrow()\n    })\n"
	const py = `class TestNative:
    def test_booleans(self, env):
        t = env.from_string("{{ value }}")
        result = t.render(value=True)
        assert isinstance(result, bool)
        assert result is True

        t = env.from_string("{{ value }}")
        result = t.render(value=False)
        assert isinstance(result, bool)
        assert result is False

        t = env.from_string("{{ 1 == 1 }}")
        result = t.render()
        assert isinstance(result, bool)
        assert result is True

        t = env.from_string("{{ 2 + 2 == 5 }}")
        result = t.render()
        assert isinstance(result, bool)
        assert result is False

        t = env.from_string("{{ None == None }}")
        result = t.render()
        assert isinstance(result, bool)
        assert result is True
`
	const table = `@pytest.mark.parametrize("source,expect", [
    ("{{ value }}", True),
    ("{{ value }}", False),
    ("{{ 1 == 1 }}", True),
    ("{{ 2 + 2 == 5 }}", False),
    ("{{ None is none }}", True),
])
def test_booleans(env, source, expect):
    result = env.from_string(source).render(value=expect)
    assert isinstance(result, bool)
    assert result is expect
`
	try(t, []example{
		jsCase("with a test of the opposite", js, group(throws+"\n"+accepts), "edited "+is),
		jsCase("only the test of the opposite", js, group(accepts), "deleted "+was),
		pyCase("a test of a class becomes a function with cases", py, table, "edited test_booleans"),
		pyCase("with fewer cases", py, with(table, "    (\"{{ value }}\", False),\n", ""), "weakened test_booleans"),
		pyCase("with another name", py, with(table, "test_booleans", "test_render"), "deleted TestNative::test_booleans"),
	})
}
