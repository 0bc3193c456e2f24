package pin_test

import "testing"

func TestTestsThatShareAFunctionAreToldApartByTheirArguments(t *testing.T) {
	t.Parallel()
	before := `const reads = async (t, fd) => {
	t.is(await read(fd), 'a')
	t.is(await read(fd), 'b')
}
const closes = async (t, fd, how) => { t.is(await close(fd, how), 0) }

test('reads stdout', reads, 1)
`
	try(t, []example{
		one("another one with another function is new", "test/io.js", before,
			with(before, "test('reads stdout', reads, 1)", "test('closes stderr', closes, 2, 'now')"), "deleted reads stdout"),
		one("renamed", "test/io.js", before, with(before, "'reads stdout'", "'reads from stdout'")),
		one("renamed with another argument", "test/io.js", with(before, "reads, 1", "reads, 1, 'utf8', false"),
			with(before, "'reads stdout', reads, 1", "'reads all of stdout', reads, 1, 'utf8', false, true"), "edited reads all of stdout"),
	})
}
