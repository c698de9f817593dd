"""The course: twelve exercises, one for each idea of the lectures, and what a grader says of a solution."""
