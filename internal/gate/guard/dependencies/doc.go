// Package dependencies is the guard that looks at what a change does to the dependencies of a repository:
// in the manifests go.mod, package.json, requirements*.txt, pyproject.toml (PEP 621, PEP 735, Poetry),
// Pipfile, Cargo.toml, Gemfile, composer.json, pom.xml, build.gradle(.kts) and *.csproj; in the lock
// files package-lock.json, yarn.lock and pnpm-lock.yaml; and in .npmrc, pip.conf and nuget.config.
//
// The rules and what to do:
//
//	dependencies/new             minor   a dependency is added: check that it is the intended one
//	dependencies/floating        medium  any version is accepted: name a version
//	dependencies/source          medium  it comes from a git repository, a URL or a path outside: use the registry
//	dependencies/insecure        major   it, or a registry, is fetched over plain HTTP: use HTTPS
//	dependencies/registry        medium  another registry is used: check who runs it
//	dependencies/replace         medium  go.mod replaces a module (minor: by a directory of the repository)
//	dependencies/integrity       major   a lock entry loses its checksum: let the tool write the file again
//	dependencies/lock-only       minor   a lock file changes without its manifest: check that a tool wrote it
//	dependencies/look-alike      medium  the name is close to that of a popular dependency or one in use
//	                                     (major: it only looks the same): check the spelling
//	dependencies/malicious       major   packages with this name were malicious: remove it
//	dependencies/deprecated      minor   the package is unmaintained: use its successor
//	dependencies/install-script  medium  a package runs code when it is installed (minor: a popular one)
//	dependencies/lifecycle       medium  package.json or composer.json runs a new command at installation
//	dependencies/vulnerable      varies  a known vulnerability, with its own rating: use a fixed version
//	dependencies/unreadable      minor   the file is not valid, so it was not examined: fix it
//	dependencies/not-found       major   the registry has no such package (medium: Maven's has not): correct
//	                                     the name, which anybody could register
//	dependencies/no-version      major   the registry does not have this version (medium: Maven's has not)
//	dependencies/young           major   the version or its package is younger than allowed: use an older one
//	dependencies/age-unknown     medium  its registry did not say how old it is: check it
//	dependencies/local           minor   it is taken for a package of the repository, so it was not looked up
//	                                     (medium: for one that the change adds)
//
// Popular names are in the directory names, one file for each ecosystem. They were written by hand from
// general knowledge of the ecosystems in 2026, not taken from statistics of a registry: a name that is
// missing there only means that names like it are not compared with it.
//
// The guard decides offline. Known vulnerabilities need an advisory directory (see LoadAdvisories). The last
// five rules judge what package releases asked registries about the dependencies of a change before
// (Change.Dependencies, chosen by Added). The number of downloads, the licence and who publishes a package
// are not judged. Versions are compared by the rules of semantic versioning, or by those of
// hashicorp/go-version where an ecosystem has other rules, which does not know all of PEP 440 and Maven;
// a version that it cannot read only matches the versions that an advisory lists. A manifest that is a
// program (Gemfile, build.gradle) is read line by line: what it computes is not seen.
package dependencies
