package strict

import (
	"fmt"
	"strings"
)

// Suggest ends a sentence about a word that is not among the known ones: with the nearest of them if one is near, else
// with all of them if they are few.
func Suggest(word string, known []string) string {
	best, least := "", 1+len(word)/3
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d <= least && d < len(k) {
			if best == "" || d < least {
				best, least = k, d
			}
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %s?", best)
	case len(known) > 0 && len(known) <= 20:
		return "; known here: " + strings.Join(known, ", ")
	}
	return ""
}

// distance is Levenshtein's: how many characters must be put in, taken out or changed.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range s {
		diagonal := row[0]
		row[0] = i + 1
		for j := range t {
			change := diagonal
			if s[i] != t[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(t)]
}
