package pin

import "path"

// languages are those whose tests are understood.
var languages = []*language{&goLanguage, &scriptLanguage, &pythonLanguage, &rustLanguage, &javaLanguage}

var byExtension = func() map[string]*language {
	out := map[string]*language{}
	for _, l := range languages {
		for _, e := range l.extensions {
			out[e] = l
		}
	}
	return out
}()

// languageOf is the language of the file at a path; one without a name where it is not known.
func languageOf(p string) *language {
	if l := byExtension[path.Ext(p)]; l != nil {
		return l
	}
	return &language{}
}
