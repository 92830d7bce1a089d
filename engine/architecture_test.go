package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module that is no test.
type source struct {
	path    string // from the module's root, with slashes
	pkg     string // its folder
	imports map[string]string
	file    *ast.File
	set     *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	const root = ".."
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		s := source{path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), imports: map[string]string{}, file: file, set: set}
		for _, im := range file.Imports {
			p, _ := strconv.Unquote(im.Path.Value)
			s.imports[p] = p
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

// in reports whether a package is dir or lies below it.
func in(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func (s source) importsOurs(dir string) bool {
	for p := range s.imports {
		if in(p, "operon/"+dir) {
			return true
		}
	}
	return false
}

func (s source) importsAny(paths ...string) string {
	for _, p := range paths {
		for im := range s.imports {
			if in(im, p) {
				return im
			}
		}
	}
	return ""
}

// Arrows that must never exist, each with the reason.
func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		bad := func(reason string) { t.Errorf("%s: %s", s.path, reason) }
		ours := func(allowed ...string) string {
			for im := range s.imports {
				if !in(im, "operon") {
					continue
				}
				ok := false
				for _, a := range allowed {
					ok = ok || in(im, "operon/"+a)
				}
				if !ok {
					return im
				}
			}
			return ""
		}
		switch {
		case in(s.pkg, "spec/coord"), in(s.pkg, "spec/value"), in(s.pkg, "engine/frontier"), in(s.pkg, "storage/boltfile"):
			if im := ours(s.pkg); im != "" {
				bad("is a leaf, and imports " + im)
			}
		case in(s.pkg, "spec"):
			if im := ours("spec"); im != "" {
				bad("spec says what is wanted and knows nobody, and imports " + im)
			}
			if im := s.importsAny("os", "net", "log", "log/slog"); im != "" {
				bad("spec is pure, and imports " + im)
			}
		case in(s.pkg, "engine/ticket"):
			if im := ours("spec", "engine/ticket"); im != "" {
				bad("the ticket core knows the pipeline alone, and imports " + im)
			}
			if im := s.importsAny("os", "sync", "net"); im != "" {
				bad("the ticket core is pure, and imports " + im)
			}
		case in(s.pkg, "meta"):
			if im := ours("spec/coord", "spec/value", "engine/ticket", "storage/boltfile", "meta"); im != "" {
				bad("metadata knows neither the data nor the engine, and imports " + im)
			}
		case in(s.pkg, "storage"):
			if im := ours("spec", "storage"); im != "" {
				bad("a store knows neither the metadata nor the engine, and imports " + im)
			}
		case in(s.pkg, "engine/worker"), in(s.pkg, "engine/body"):
			if s.importsOurs("engine/ticket") || s.importsOurs("meta") {
				bad("workers and bodies know nothing of tickets")
			}
		}
		if !in(s.pkg, "cmd/operon") {
			if im := s.importsAny("github.com/urfave/cli/v2", "github.com/rs/zerolog", "golang.org/x/term", "operon/cmd"); im != "" {
				bad("a library package leaves flags, logs and terminals to the command, and imports " + im)
			}
		}
		if im := s.importsAny("gopkg.in/yaml.v3", "go.yaml.in/yaml/v4"); im != "" && !in(s.pkg, "spec") {
			bad("YAML is spec's alone, and it imports " + im)
		}
		for _, test := range []string{"engine/ticket/reference", "engine/enginetest", "storage/storagetest"} {
			if s.importsOurs(test) && !in(s.pkg, test) {
				bad("what is made for tests is imported")
			}
		}
	}
}

// pure are the files of package engine that decide and do nothing else.
var pure = []string{"engine/dispatch.go", "engine/outcome.go", "engine/plan.go", "engine/reconcile.go"}

func (s source) isPure() bool {
	for _, p := range pure {
		if s.path == p {
			return true
		}
	}
	return in(s.pkg, "engine/ticket") && !in(s.pkg, "engine/ticket/reference") || in(s.pkg, "engine/frontier")
}

// exceptions are the places where a forbidden call is right, each with the
// reason.
var exceptions = map[string]string{
	"cmd/operon/main.go os.Exit":                "the one place that ends the program",
	"cmd/operon/main.go context.Background":     "where contexts begin",
	"engine/ticket/transition.go panic":         "an invariant of ours",
	"engine/ticket/reference/decl.go panic":     "Parse is for literals",
	"engine/ticket/reference/evaluate.go panic": "the oracle says what is missing",
	"engine/state.go panic":                     "an invariant of ours",
	"storage/boltfile/guard.go panic":           "what is not the database's goes on",
}

// Calls that must not be outside the places listed above, and what purity rules
// out.
func TestForbiddenCalls(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				if s.isPure() {
					t.Errorf("%s: %v: a pure file starts no goroutine and knows no channel", s.path, s.set.Position(n.Pos()))
				}
			case *ast.CallExpr:
				call := callName(n)
				switch call {
				case "context.Background", "context.TODO", "time.Sleep", "os.Exit", "panic":
					if exceptions[s.path+" "+call] == "" && !strings.Contains(panicText(n), "this is a bug") {
						t.Errorf("%v: %s", s.set.Position(n.Pos()), call)
					}
				case "time.Now", "time.Since":
					if s.isPure() || in(s.pkg, "spec") {
						t.Errorf("%v: %s in a pure file", s.set.Position(n.Pos()), call)
					}
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%v: an init function", s.set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

func callName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// panicText is the literal text of what a call of panic says.
func panicText(c *ast.CallExpr) string {
	text := ""
	for _, a := range c.Args {
		ast.Inspect(a, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok {
				text += l.Value
			}
			return true
		})
	}
	return text
}

// Every package says what it is, and every exported name of the libraries has a
// comment.
func TestDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		if strings.Contains(s.pkg, "internal") || in(s.pkg, "cmd") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Name.IsExported() && f.Doc == nil && !methodOfUnexported(f) {
				t.Errorf("%v: %s has no comment", s.set.Position(f.Pos()), f.Name.Name)
			}
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

func methodOfUnexported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	exported := false
	ast.Inspect(f.Recv, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			exported = true
		}
		return true
	})
	return !exported
}
