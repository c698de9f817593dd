"""The HTTP server: routes of the page, of OpenAI's clients and of LibreTranslate's."""
