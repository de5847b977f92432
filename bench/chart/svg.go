package chart

import (
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
)

var (
	styleAttribute = regexp.MustCompile(`\s*style="([^"]*)"`)
	beforeDrawing  = regexp.MustCompile(`(?s)^.*?<svg[^>]*>`)
)

// dress makes a drawing fit for a page: a name and a description for those who do not see it, the page's font, its colours
// as variables, and no style attribute, which the page's security policy would not let through.
func dress(svg, id, class, title, desc string, c *canvas) template.HTML {
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="drawing %s" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		class, c.width, c.height, id, id, id, html.EscapeString(title), id, html.EscapeString(desc))
	svg = beforeDrawing.ReplaceAllLiteralString(svg, "")
	svg = styleAttribute.ReplaceAllStringFunc(svg, attributes)
	svg = variables().Replace(svg)
	// What is drawn is our own; texts in it were escaped when they were written.
	return template.HTML(head + strings.TrimSpace(svg)) //nolint:gosec // see above
}

// attributes are the properties of a style attribute as attributes of their own.
func attributes(style string) string {
	var b strings.Builder
	_, properties, _ := strings.Cut(style, `"`)
	for property := range strings.SplitSeq(strings.TrimSuffix(properties, `"`), ";") {
		name, value, ok := strings.Cut(property, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || strings.HasPrefix(name, "font-") && name != "font-size" { // the page has a font of its own
			continue
		}
		fmt.Fprintf(&b, ` %s="%s"`, name, strings.TrimSuffix(value, "px"))
	}
	return b.String()
}
